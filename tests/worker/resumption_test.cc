// Streams that another worker goes on with: wherever they are cut, the two parts are the undisturbed answer, to the
// byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/openai/resumption.h"
#include "running_worker.h"

namespace kvist::worker::resumption_test {
namespace {

using testing::HasSubstr;

/// A resumable stream as a proxy reads it: groups of events, each with the tokens that the answer has with it.
struct Group {
  std::string events;  ///< without the note
  std::vector<TokenId> tokens;
};

std::vector<Group> groups_of(std::string_view body) {
  net::SseParser parser;
  EXPECT_TRUE(parser.feed(body));
  std::vector<Group> groups;
  std::uint32_t left = 0;
  for (net::SseParser::Event event; parser.next(event);) {
    std::string_view raw = event.raw;
    if (left == 0) {
      const auto note = openai::read_token_note(raw);
      EXPECT_TRUE(note) << raw;
      if (!note) return groups;
      left = note->events;
      openai::append_tokens_of(*note, groups.emplace_back().tokens);
      raw.remove_prefix(note->bytes);
    }
    groups.back().events += raw;
    --left;
  }
  EXPECT_EQ(left, 0U);
  return groups;
}

net::HttpResponse post(RunningWorker& worker, const std::string& path, std::string body, std::size_t known) {
  net::Headers headers;
  headers.set("X-Request-Id", "the-request");
  headers.set(std::string(openai::kResumableHeader), std::to_string(known));
  return worker.call("POST", path, std::move(body), std::move(headers));
}

/// Cuts the answer to a request behind each of its groups and has another worker go on.
void expect_resumable_everywhere(RunningWorker& first, RunningWorker& second, const std::string& path,
                                 const std::string& body, std::size_t step = 1) {
  const net::HttpResponse whole = post(first, path, body, 0);
  ASSERT_EQ(whole.status, 200) << whole.body;
  const auto created = openai::read_resumable(whole.headers.find(openai::kResumableHeader).value_or(""));
  ASSERT_TRUE(created);
  const std::vector<Group> groups = groups_of(whole.body);
  ASSERT_GT(groups.size(), 4U) << whole.body;
  std::vector<TokenId> tokens;
  for (std::size_t cut = 1; cut < groups.size(); ++cut) {
    tokens.insert(tokens.end(), groups[cut - 1].tokens.begin(), groups[cut - 1].tokens.end());
    if (cut % step != 0) continue;
    const net::HttpResponse rest = post(second, path, openai::with_resumption(body, tokens, *created), tokens.size());
    ASSERT_EQ(rest.status, 200) << rest.body;
    EXPECT_TRUE(rest.headers.find(openai::kResumableHeader)) << "it may be resumed once more";
    std::string expected;
    std::string got;
    for (std::size_t i = cut; i < groups.size(); ++i) expected += groups[i].events;
    for (const Group& group : groups_of(rest.body)) got += group.events;
    ASSERT_EQ(got, expected) << "cut behind " << tokens.size() << " tokens";
  }
}

TEST(Resumption, AChatGoesOnAsIfNothingHadHappened) {
  RunningWorker first;
  RunningWorker second;
  expect_resumable_everywhere(first, second, "/v1/chat/completions", chat_body("hello", R"("stream":true)"));
}

TEST(Resumption, ACompletionGoesOnAsIfNothingHadHappened) {
  RunningWorker first;
  RunningWorker second;
  for (const std::string_view fields :
       {R"("stream":true,"max_tokens":30,"seed":7,"ignore_eos":true)",
        R"("stream":true,"max_tokens":40,"min_tokens":39)",
        R"("stream":true,"max_tokens":40,"seed":3,"logprobs":2,"return_token_ids":true)"})
    expect_resumable_everywhere(first, second, "/v1/completions", completion_body(R"("abc")", fields), 3);
}

TEST(Resumption, TextHeldBackForAStopStringIsNotLost) {
  RunningWorker first;
  RunningWorker second;
  // Every other word of the prose may begin one of these.
  expect_resumable_everywhere(
      first, second, "/v1/chat/completions",
      chat_body("hello", R"("stream":true,"max_tokens":200,"ignore_eos":true,"stop":["e a","the s","ing t","qqq"])"));
}

TEST(Resumption, UsageIsThatOfTheWholeAnswer) {
  RunningWorker worker;
  const std::string body =
      chat_body("hello", R"("stream":true,"max_tokens":20,"ignore_eos":true,"stream_options":{"include_usage":true})");
  const net::HttpResponse whole = post(worker, "/v1/chat/completions", body, 0);
  std::vector<TokenId> tokens;
  const std::vector<Group> groups = groups_of(whole.body);
  for (std::size_t i = 0; i < 7; ++i) tokens.insert(tokens.end(), groups[i].tokens.begin(), groups[i].tokens.end());
  const net::HttpResponse rest =
      post(worker, "/v1/chat/completions", openai::with_resumption(body, tokens, 5), tokens.size());
  const ReadStream was = read_stream(whole.body);
  const ReadStream is = read_stream(rest.body);
  ASSERT_TRUE(was.usage && is.usage);
  EXPECT_EQ(is.usage->prompt_tokens, was.usage->prompt_tokens);
  EXPECT_EQ(is.usage->completion_tokens, 20U);
  EXPECT_LE(is.usage->cached_tokens, is.usage->prompt_tokens);
  EXPECT_TRUE(is.done_last);
  EXPECT_FALSE(is.role_first);
  EXPECT_THAT(rest.body, HasSubstr(R"("created":5,)"));
}

TEST(Resumption, IsOnlyPromisedWhereItIsExact) {
  RunningWorker worker;
  const auto promise = [&](const std::string& path, std::string body) {
    const net::HttpResponse response = post(worker, path, std::move(body), 0);
    EXPECT_EQ(response.status, 200) << response.body;
    return std::string(response.headers.find(openai::kResumableHeader).value_or(""));
  };
  const std::string chats = "/v1/chat/completions";
  EXPECT_TRUE(openai::read_resumable(promise(chats, chat_body("a", R"("stream":true)"))));
  EXPECT_EQ(promise(chats, chat_body("a", R"("stream":false)")), "");
  EXPECT_EQ(promise(chats, chat_body("a", R"("stream":true,"n":2)")), "several_choices");
  EXPECT_EQ(promise("/v1/completions", completion_body(R"(["a","b"])", R"("stream":true)")), "several_choices");
  EXPECT_EQ(promise(chats, openai::with_resumption(chat_body("a", R"("stream":true)"), {{TokenId(65)}}, 1)), "")
      << "the proxy does not know of the tokens that its client gave";
  const net::HttpResponse unasked = worker.post(chats, chat_body("a", R"("stream":true)"));
  EXPECT_FALSE(unasked.headers.find(openai::kResumableHeader));
  EXPECT_FALSE(unasked.body.starts_with(':'));
}

TEST(Resumption, WhatCannotBeResumedIsRefused) {
  RunningWorker worker;
  const auto refused = [&](std::string_view fields, std::string_view why, int status = 400) {
    const net::HttpResponse response = worker.post("/v1/chat/completions", chat_body("a", fields));
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_THAT(response.body, HasSubstr(why));
  };
  refused(R"("kvist_resume":{"created":1,"token_ids":[65]})", "only a stream");
  refused(R"("stream":true,"kvist_resume":{"created":1,"token_ids":[]})", "at least one token");
  refused(R"("stream":true,"kvist_resume":{"created":-1,"token_ids":[65]})", "created");
  refused(R"("stream":true,"kvist_resume":{"token_ids":[65]})", "created");
  refused(R"("stream":true,"kvist_resume":7)", "kvist_resume");
  refused(R"("stream":true,"kvist_resume":{"created":1,"token_ids":[4000000]})", "vocabulary");
  refused(R"("stream":true,"n":2,"kvist_resume":{"created":1,"token_ids":[65]})", "one choice", 422);
  refused(R"("stream":true,"max_tokens":1,"kvist_resume":{"created":1,"token_ids":[65]})", "fewer tokens");
}

}  // namespace
}  // namespace kvist::worker::resumption_test

#include "kvist/gateway/resumable_answer.h"

#include <gtest/gtest.h>

#include <string>

#include "kvist/base/random.h"
#include "kvist/openai/codec.h"

namespace kvist::gateway::resumable_answer_test {
namespace {

constexpr std::size_t kBytes = 100;

void note(ResumableAnswer& answer, std::string_view line) {
  const auto read = openai::read_token_note(line);
  ASSERT_TRUE(read) << line;
  answer.log().add(*read);
}

TEST(ResumableAnswer, IsResumedBehindWhatTheClientHas) {
  const spec::MigrationSpec spec;
  ResumableAnswer answer(spec, true, kBytes);
  EXPECT_TRUE(answer.asks());
  EXPECT_FALSE(answer.keeps_request());
  EXPECT_TRUE(answer.on_head("1700000000"));
  EXPECT_TRUE(answer.keeps_request());
  EXPECT_EQ(answer.refusal(), MigrationRefusal::kEngine) << "no token came";
  note(answer, ":1,17,4\n");
  note(answer, ":3,2\n");
  EXPECT_FALSE(answer.refusal());
  EXPECT_EQ(answer.tokens(), 3U);
  net::HttpRequest request{.method = "POST", .target = "/v1/completions", .headers = {}, .body = " {\"stream\":true}"};
  request.headers.add(std::string(openai::kResumableHeader), "0");
  request.headers.add("Authorization", "Bearer key");
  const net::HttpRequest rest = answer.continuation(request);
  EXPECT_EQ(rest.body, R"( {"kvist_resume":{"created":1700000000,"token_ids":[17,4,2]},"stream":true})");
  EXPECT_EQ(rest.headers.find(openai::kResumableHeader), "3");
  EXPECT_EQ(rest.headers.find("Authorization"), "Bearer key");
  EXPECT_EQ(rest.target, request.target);
}

TEST(ResumableAnswer, SaysWhyNot) {
  const spec::MigrationSpec spec{.max = 1, .max_tokens = 2, .max_request_bytes = 1'024};
  const spec::MigrationSpec off{.enabled = false};
  EXPECT_EQ(ResumableAnswer(off, true, kBytes).refusal(), MigrationRefusal::kOff);
  EXPECT_FALSE(ResumableAnswer(off, true, kBytes).asks());

  ResumableAnswer other(spec, true, kBytes);
  EXPECT_FALSE(other.on_head(std::nullopt));
  EXPECT_EQ(other.refusal(), MigrationRefusal::kEngine);
  EXPECT_FALSE(other.on_head("several_choices"));
  EXPECT_EQ(other.refusal(), MigrationRefusal::kSeveralChoices);
  EXPECT_FALSE(other.on_head("tool_calls"));
  EXPECT_EQ(other.refusal(), MigrationRefusal::kToolCalls);
  ResumableAnswer unasked(spec, false, kBytes);
  EXPECT_FALSE(unasked.on_head("5")) << "it was not asked for, so it is another field of that name";

  ResumableAnswer large(spec, true, 2'000);
  ASSERT_TRUE(large.on_head("5"));
  EXPECT_FALSE(large.keeps_request());
  note(large, ":1,1\n");
  EXPECT_EQ(large.refusal(), MigrationRefusal::kLargeRequest);

  ResumableAnswer often(spec, true, kBytes);
  ASSERT_TRUE(often.on_head("5"));
  note(often, ":1,1\n");
  EXPECT_FALSE(often.refusal());
  often.on_moved();
  EXPECT_EQ(often.refusal(), MigrationRefusal::kTooOften);

  ResumableAnswer lengthy(spec, true, kBytes);
  ASSERT_TRUE(lengthy.on_head("5"));
  note(lengthy, ":1,1,2\n");
  EXPECT_FALSE(lengthy.refusal());
  note(lengthy, ":1,3\n");
  EXPECT_EQ(lengthy.refusal(), MigrationRefusal::kTooLong);
  EXPECT_EQ(lengthy.tokens(), 0U) << "its memory is given back";
}

TEST(TokenNote, IsReadAsItWasWritten) {
  RandomStream random(3);
  for (int i = 0; i < 500; ++i) {
    std::vector<TokenId> tokens;
    for (std::uint64_t n = random.uniform_int(0, 5); n > 0; --n)
      tokens.emplace_back(static_cast<std::uint32_t>(random.uniform_int(0, 0xFFFF'FFFF)));
    const auto events = static_cast<std::uint32_t>(random.uniform_int(1, openai::kMaxGroupedEvents));
    std::string line;
    openai::append_token_note(line, events, tokens);
    const std::string event = line + "data: x\n\n";
    const auto read = openai::read_token_note(event);
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(read->events, events);
    EXPECT_EQ(read->bytes, line.size());
    std::vector<TokenId> again;
    openai::append_tokens_of(*read, again);
    EXPECT_EQ(again, tokens);
  }
}

TEST(TokenNote, OtherCommentsAreNone) {
  for (const std::string_view line :
       {"", ":", ":\n", ":1", ":1,", ":1,\n", ": 1,2\n", ":0,2\n", ":4097\n", ":1,4294967296\n", ":1,99999999999\n",
        ":1,2\r\n", ":1,-2\n", ":1,2 \n", "data: 1\n", ":ping\n", ":99999999999\n"})
    EXPECT_FALSE(openai::read_token_note(line)) << line;
}

TEST(ResumableHeader, IsANumberOfSeconds) {
  EXPECT_EQ(openai::read_resumable("0"), 0);
  EXPECT_EQ(openai::read_resumable("1700000000"), 1'700'000'000);
  for (const std::string_view value : {"", "-1", "1 ", "x", "1.5", "99999999999999999999"})
    EXPECT_FALSE(openai::read_resumable(value)) << value;
}

}  // namespace
}  // namespace kvist::gateway::resumable_answer_test

#include "kvist/gateway/answer_relay.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_worker.h"

namespace kvist::gateway::answer_relay_test {
namespace {

struct Relayed {
  std::string out;
  StreamState state;
};

Relayed relay_in_pieces(std::string_view stream, std::size_t piece, bool usage_wanted) {
  AnswerRelay relay(usage_wanted);
  Relayed result;
  for (std::size_t at = 0; at < stream.size(); at += piece) {
    EXPECT_TRUE(relay.feed(stream.substr(at, piece), result.out));
  }
  EXPECT_EQ(relay.rest(), "");
  result.state = relay.state();
  return result;
}

const std::string kStart =
    std::string(kRoleEvent) + ": a comment\n\n" + text_event("Hello") + text_event("\\\"usage\\\"");

TEST(AnswerRelay, ForwardsEveryByteHoweverTheStreamIsCut) {
  const std::string stream = kStart + std::string(kUsageEvent) + std::string(kDoneEvent);
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    ASSERT_EQ(relay_in_pieces(stream, piece, true).out, stream) << "pieces of " << piece;
  }
}

TEST(AnswerRelay, LeavesOutOnlyTheUsageChunkThatNobodyAskedFor) {
  const std::string stream = kStart + std::string(kUsageEvent) + std::string(kDoneEvent);
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    const Relayed relayed = relay_in_pieces(stream, piece, false);
    ASSERT_EQ(relayed.out, kStart + std::string(kDoneEvent)) << "pieces of " << piece;
    ASSERT_TRUE(relayed.state.usage);
    EXPECT_EQ(relayed.state.usage->cached_tokens, 32U);
    EXPECT_EQ(relayed.state.usage->prompt_tokens, 50U);
  }
}

TEST(AnswerRelay, KeepsUsageThatComesWithText) {
  const std::string stream =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"usage\":{\"prompt_tokens\":3}}\n\n";
  const Relayed relayed = relay_in_pieces(stream, 7, false);
  EXPECT_EQ(relayed.out, stream);
  EXPECT_EQ(relayed.state.usage->prompt_tokens, 3U);
}

// Gives the stream in pieces, and those that are taken as they are without copying them.
Relayed relay_tokens_as_they_are(const std::vector<std::string>& pieces, std::size_t& taken) {
  AnswerRelay relay(false, "fp");
  Relayed result;
  taken = 0;
  for (const std::string& piece : pieces) {
    if (const std::string_view token = relay.take_token(piece); !token.empty()) {
      ++taken;
      result.out += token;
    } else {
      EXPECT_TRUE(relay.feed(piece, result.out));
    }
  }
  result.state = relay.state();
  return result;
}

TEST(AnswerRelay, TakesATokenAsItIsWithTheSameResult) {
  const std::vector<std::string> pieces = {
      std::string(kRoleEvent),
      text_event("first"),
      text_event("as it is"),
      text_event("\\\"usage\\\", \\\"error\\\""),
      "data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\": null}]}\n\n",
      text_event("c") + text_event("d"),
      text_event("e").substr(0, 9),
      text_event("e").substr(9),
      ": comment\n\n",
      text_event("f"),
      "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
      std::string(kUsageEvent),
      std::string(kDoneEvent)};
  std::size_t taken = 0;
  const Relayed relayed = relay_tokens_as_they_are(pieces, taken);
  EXPECT_EQ(taken, 4U);
  std::string stream;
  for (const std::string& piece : pieces) stream += piece;
  AnswerRelay relay(false, "fp");
  std::string fed;
  ASSERT_TRUE(relay.feed(stream, fed));
  EXPECT_EQ(relayed.out, fed);
  EXPECT_EQ(relayed.state.tokens, relay.state().tokens);
  EXPECT_EQ(relayed.state.usage->cached_tokens, relay.state().usage->cached_tokens);
  EXPECT_TRUE(relayed.state.finished && relayed.state.done);
}

TEST(AnswerRelay, TakesNothingAsItIsThatMattersOtherwise) {
  AnswerRelay relay(true);
  std::string out;
  ASSERT_TRUE(relay.feed(kRoleEvent, out));
  EXPECT_EQ(relay.take_token(text_event("the first token")), "");
  ASSERT_TRUE(relay.feed(text_event("a"), out));
  EXPECT_EQ(relay.take_token("data: {\"error\":{\"message\":\"out of blocks\"}}\n\n"), "");
  EXPECT_EQ(
      relay.take_token("data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\" : \"length\"}]}\n\n"), "");
  EXPECT_EQ(relay.take_token("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3}}\n\n"), "");
  EXPECT_EQ(relay.take_token(kDoneEvent), "");
  EXPECT_EQ(relay.take_token("data: \n\n"), "");
  EXPECT_EQ(relay.state().tokens, 1U);
  EXPECT_EQ(relay.take_token(text_event("b")), text_event("b"));
  EXPECT_EQ(relay.state().tokens, 2U);
}

/// A resumable stream: a group of the role and the first token, then groups of one event, then the end as one group.
const std::vector<std::string> kNoted = {":2,65,66\n" + std::string(kRoleEvent) + text_event("AB"),
                                         ":1,67\n" + text_event("C"),
                                         ":1\n" + text_event("no token"),
                                         ": a comment\n\n",
                                         ":1,68,69\n" + text_event("DE"),
                                         ":3,70\n" + text_event("F") +
                                             "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
                                             std::string(kDoneEvent)};
const std::vector<std::size_t> kNotedTokens = {2, 3, 3, 3, 5, 6};

std::string without_notes(std::string stream) {
  std::string out;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find('\n', at) + 1;
    if (stream[at] != ':' || stream[at + 1] == ' ') out += stream.substr(at, end - at);
    at = end;
  }
  return out;
}

TEST(AnswerRelay, TakesNotesOffHoweverTheStreamIsCut) {
  std::string stream;
  for (const std::string& piece : kNoted) stream += piece;
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    TokenLog log(100);
    AnswerRelay relay(true);
    relay.expect_notes(log);
    std::string out;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      const std::string_view piece = std::string_view(stream).substr(at, size);
      const std::string_view token = relay.take_token(piece);
      out += token;
      if (token.empty()) {
        ASSERT_TRUE(relay.feed(piece, out));
      }
    }
    ASSERT_EQ(out, without_notes(stream)) << "pieces of " << size;
    ASSERT_EQ(log.tokens().size(), 6U);
    EXPECT_EQ(log.tokens()[5], TokenId(70));
    EXPECT_FALSE(relay.is_within_group());
  }
}

TEST(AnswerRelay, TheLogHasExactlyTheTokensOfWhatWasForwarded) {
  std::string stream;
  std::vector<std::size_t> ends;  // of groups
  for (const std::string& piece : kNoted) ends.push_back((stream += piece).size());
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    TokenLog log(100);
    AnswerRelay relay(true);
    relay.expect_notes(log);
    std::string out;
    ASSERT_TRUE(relay.feed(stream.substr(0, cut), out));
    std::size_t groups = 0;
    while (groups < ends.size() && ends[groups] <= cut) ++groups;
    EXPECT_EQ(log.tokens().size(), groups == 0 ? 0 : kNotedTokens[groups - 1]) << "cut at " << cut;
    EXPECT_EQ(out, without_notes(stream.substr(0, groups == 0 ? 0 : ends[groups - 1]))) << "cut at " << cut;
  }
}

TEST(AnswerRelay, AnErrorWithinAResumableStreamWaitsForTheDecision) {
  const std::string error = "data: {\"error\":{\"message\":\"going down\",\"code\":503}}\n\n";
  TokenLog log(100);
  AnswerRelay relay(true);
  relay.expect_notes(log);
  std::string out;
  ASSERT_TRUE(relay.feed(kNoted[0] + kNoted[1] + error + std::string(kDoneEvent), out));
  EXPECT_EQ(out, without_notes(kNoted[0] + kNoted[1]));
  EXPECT_TRUE(relay.state().server_failed());
  EXPECT_EQ(relay.state().error_status, 503);
  out.clear();
  relay.release_error(out);
  EXPECT_EQ(out, error + std::string(kDoneEvent)) << "it goes on nowhere";
}

TEST(AnswerRelay, TextWithoutANoteEndsTheLog) {
  TokenLog log(100);
  AnswerRelay relay(true);
  relay.expect_notes(log);
  std::string out;
  ASSERT_TRUE(relay.feed(kNoted[0] + ": ping\n\n", out));
  EXPECT_TRUE(log.is_whole()) << "a comment is no part of the answer";
  ASSERT_TRUE(relay.feed(":1,x\n" + text_event("C"), out));
  EXPECT_FALSE(log.is_whole());
  EXPECT_FALSE(log.is_too_long());
}

TEST(AnswerRelay, AnUnfinishedEventIsHeldBack) {
  AnswerRelay relay(true);
  std::string out;
  ASSERT_TRUE(relay.feed(text_event("a") + "data: {\"cho", out));
  EXPECT_EQ(out, text_event("a"));
  EXPECT_EQ(relay.rest(), "data: {\"cho");
}

TEST(AnswerRelay, TheRoleIsNotTheFirstToken) {
  AnswerRelay relay(true);
  std::string out;
  ASSERT_TRUE(relay.feed(kRoleEvent, out));
  EXPECT_FALSE(relay.state().first_token);
  ASSERT_TRUE(relay.feed(text_event("a"), out));
  EXPECT_TRUE(relay.state().first_token);
  EXPECT_EQ(relay.state().tokens, 1U);
  ASSERT_TRUE(relay.feed(text_event("b") + text_event("c"), out));
  EXPECT_EQ(relay.state().tokens, 3U);
  EXPECT_FALSE(relay.state().done);
  ASSERT_TRUE(relay.feed(kDoneEvent, out));
  EXPECT_TRUE(relay.state().done);
}

TEST(AnswerRelay, ReasoningAndToolCallsAreTokensToo) {
  const auto delta = [](const std::string& members) {
    return "data: {\"choices\":[{\"index\":0,\"delta\":{" + members + "}}]}\n\n";
  };
  for (const std::string members :
       {R"("reasoning_content":"so")", R"("reasoning":"so","content":null)", R"("refusal":"no")",
        R"("tool_calls":[{"index":0,"function":{"arguments":"{"}}])", R"("function_call":{"arguments":"{"})"}) {
    AnswerRelay relay(true);
    std::string out;
    ASSERT_TRUE(relay.feed(delta(members), out));
    EXPECT_TRUE(relay.state().first_token) << members;
    EXPECT_EQ(relay.state().tokens, 1U) << members;
  }
  for (const std::string members :
       {R"("role":"assistant","content":"","tool_calls":[])", R"("reasoning_content":"")"}) {
    AnswerRelay relay(true);
    std::string out;
    ASSERT_TRUE(relay.feed(delta(members), out));
    EXPECT_FALSE(relay.state().first_token) << members;
  }
}

TEST(AnswerRelay, MeasuresTheTextOfChunksThatHaveSeveralTokens) {
  const auto bytes_of = [](std::string_view delta) {
    AnswerRelay relay(true);
    relay.measure_text();
    const std::string event =
        R"(data: {"id":"content","model":"text","choices":[{"index":0,"delta":{)" + std::string(delta) + "}}]}\n\n";
    std::string out;
    EXPECT_TRUE(relay.feed(event, out));
    EXPECT_EQ(relay.take_token(event), event);
    EXPECT_EQ(relay.state().text_bytes % 2, 0U) << "both ways are one";
    return relay.state().text_bytes / 2;
  };
  EXPECT_EQ(bytes_of(R"("content":"a word")"), 6U);
  EXPECT_EQ(bytes_of(R"("content" : "\"text\":\"" , "role":"assistant")"), 11U);
  EXPECT_EQ(bytes_of(R"("reasoning_content":"ab","content":"cd")"), 4U);
  EXPECT_EQ(bytes_of(R"("tool_calls":[{"index":0,"function":{"name":"f","arguments":"{\"a\":1}"}}])"), 9U);
  EXPECT_EQ(bytes_of(R"("content":"x","logprobs":{"content":[{"token":"y"}]})"), 1U);
  AnswerRelay relay(true);
  std::string out;
  EXPECT_TRUE(relay.feed(text_event(std::string(4'000, 'a')), out));
  EXPECT_EQ(relay.state().text_bytes, 0U) << "nobody pays for it";
}

TEST(AnswerRelay, ANullUsageInEveryChunkIsNoUsage) {
  const std::string stream = text_event("a") +
                             "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}],\"usage\": null}\n\n"
                             "data: {\"choices\":[],\"usage\":null}\n\n";
  const Relayed relayed = relay_in_pieces(stream, 11, false);
  EXPECT_EQ(relayed.out, stream);
  EXPECT_FALSE(relayed.state.usage);
}

TEST(AnswerRelay, NoticesAnErrorFrameAndForwardsIt) {
  const std::string stream = text_event("a") + "data: {\"error\":{\"message\":\"out of blocks\"}}\n\n";
  const Relayed relayed = relay_in_pieces(stream, 5, false);
  EXPECT_EQ(relayed.out, stream);
  EXPECT_EQ(relayed.state.error, "out of blocks");
}

TEST(AnswerRelay, WhatItCannotReadIsForwardedAndCounted) {
  const std::string stream = "data: hello\n\ndata: {\"usage\":\n\n";
  const Relayed relayed = relay_in_pieces(stream, 100, false);
  EXPECT_EQ(relayed.out, stream);
  EXPECT_EQ(relayed.state.unreadable, 2U);
}

TEST(AnswerRelay, AnEventWithoutEndIsAnError) {
  AnswerRelay relay(true);
  std::string out;
  const auto fed = relay.feed("data: " + std::string(3U << 20, 'x'), out);
  ASSERT_FALSE(fed);
}

// As vLLM ends a stream: with the fingerprint in the chunk with usage, where there is one.
const std::string kEnd =
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kEndWithFingerprint =
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"},\"finish_reason\":\"stop\"}],"
    "\"system_fingerprint\":\"vllm-0.32.0-a\\\"b\"}\n\n";
const std::string kUsageWithFingerprint =
    "data: "
    "{\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":5},\"system_fingerprint\":\"vllm-0.32.0-a\\\"b\"}\n\n";

TEST(AnswerRelay, TheFingerprintOfTheChunkLeftOutMovesIntoTheOneThatEndsTheChoice) {
  const std::string stream = kStart + kEnd + kUsageWithFingerprint + std::string(kDoneEvent);
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    const Relayed relayed = relay_in_pieces(stream, piece, false);
    ASSERT_EQ(relayed.out, kStart + kEndWithFingerprint + std::string(kDoneEvent)) << "pieces of " << piece;
    ASSERT_EQ(relayed.state.fingerprint, "vllm-0.32.0-a\"b");
  }
  EXPECT_EQ(relay_in_pieces(stream, 9, true).out, stream);
}

TEST(AnswerRelay, AKnownFingerprintNeedsNoWaiting) {
  AnswerRelay relay(false, "vllm-0.32.0-a\"b");
  std::string out;
  ASSERT_TRUE(relay.feed(kStart + kEnd, out));
  EXPECT_EQ(out, kStart + kEndWithFingerprint);
  ASSERT_TRUE(relay.feed(kEndWithFingerprint, out));
  EXPECT_EQ(out, kStart + kEndWithFingerprint + kEndWithFingerprint) << "what has one is left alone";
}

TEST(AnswerRelay, AnEndWithoutFingerprintWaitsForOneEventOnly) {
  AnswerRelay relay(false);
  std::string out;
  ASSERT_TRUE(relay.feed(kEnd, out));
  EXPECT_EQ(out, "");
  ASSERT_TRUE(relay.feed(kDoneEvent, out));
  EXPECT_EQ(out, kEnd + std::string(kDoneEvent));
  ASSERT_TRUE(relay.feed(kEnd, out));
  out.clear();
  relay.release(out);
  EXPECT_EQ(out, kEnd) << "at the end of the stream";
}

TEST(AnswerRelay, KnowsWhetherAStreamSaidHowItEnds) {
  const auto has_end = [](std::string_view stream) { return relay_in_pieces(stream, 17, true).state.has_end(); };
  EXPECT_FALSE(has_end(kStart));
  EXPECT_FALSE(has_end(""));
  for (const std::string& end : {kEnd, std::string(kUsageEvent), std::string(kDoneEvent),
                                 std::string("data: {\"error\":{\"message\":\"x\"}}\n\n")})
    EXPECT_TRUE(has_end(kStart + end)) << end;
}

TEST(AnswerRelay, TellsTheServersErrorsFromTheRequests) {
  const auto failed = [](const std::string& code) {
    return relay_in_pieces("data: {\"error\":{\"message\":\"x\",\"code\":" + code + "}}\n\n", 17, true)
        .state.server_failed();
  };
  EXPECT_TRUE(failed("500"));
  EXPECT_TRUE(failed("null"));
  EXPECT_TRUE(failed("\"internal\""));
  EXPECT_FALSE(failed("400"));
  EXPECT_FALSE(relay_in_pieces(kStart, 17, true).state.server_failed());
}

}  // namespace
}  // namespace kvist::gateway::answer_relay_test

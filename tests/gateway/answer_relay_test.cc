#include "kvist/gateway/answer_relay.h"

#include <gtest/gtest.h>

#include "fake_worker.h"

namespace kvist::gateway {
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

}  // namespace
}  // namespace kvist::gateway

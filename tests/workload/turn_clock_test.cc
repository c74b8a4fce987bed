#include "kvist/workload/turn_clock.h"

#include <gtest/gtest.h>

namespace kvist::workload::turn_clock_test {
namespace {

using std::chrono::milliseconds;

constexpr TimePoint at(int ms) {
  return TimePoint{milliseconds(ms)};
}

TEST(TurnClock, FillsASampleFromWhatWasSeen) {
  TurnClock clock(ConversationId(3), 2, at(1000));
  clock.on_sent(at(1002));
  clock.on_route("worker-1", 3200);
  EXPECT_TRUE(clock.on_chunk("Once", at(1102)));
  EXPECT_TRUE(clock.on_chunk(" upon", at(1112)));
  EXPECT_TRUE(clock.on_chunk(" a", at(1142)));
  clock.on_usage(3900, 3200, 5);
  const TurnSample sample = clock.finish(TurnOutcome::kSucceeded, "", at(1150));
  EXPECT_EQ(sample.conversation, ConversationId(3));
  EXPECT_EQ(sample.turn, 2U);
  EXPECT_EQ(sample.outcome, TurnOutcome::kSucceeded);
  EXPECT_EQ(sample.worker, "worker-1");
  EXPECT_EQ(sample.predicted_cached_tokens, 3200U);
  EXPECT_EQ(sample.intended, at(1000));
  EXPECT_EQ(sample.first_token, at(1102));
  EXPECT_EQ(sample.last_token, at(1142));
  EXPECT_EQ(sample.prompt_tokens, 3900U);
  EXPECT_EQ(sample.cached_tokens, 3200U);
  EXPECT_EQ(sample.completion_tokens, 5U);
  EXPECT_EQ(sample.chunks, 3U);
  EXPECT_EQ(sample.gaps_ms, (std::vector<float>{10, 30}));
  EXPECT_DOUBLE_EQ(sample.ttft_ms(), 100);
  EXPECT_DOUBLE_EQ(sample.latency_ms(), 148);
  EXPECT_DOUBLE_EQ(*sample.tpot_ms(), 10);  // 40 ms over 5 - 1 tokens, though there were 3 chunks
}

TEST(TurnClock, ARoleOnlyChunkIsNotTheFirstToken) {
  TurnClock clock(ConversationId(0), 0, at(0));
  clock.on_sent(at(0));
  EXPECT_FALSE(clock.on_chunk("", at(5)));
  EXPECT_FALSE(clock.has_first_token());
  EXPECT_TRUE(clock.on_chunk("x", at(90)));
  EXPECT_FALSE(clock.on_chunk("", at(95)));  // the finish reason
  const TurnSample sample = clock.finish(TurnOutcome::kSucceeded, "", at(96));
  EXPECT_DOUBLE_EQ(sample.ttft_ms(), 90);
  EXPECT_EQ(sample.last_token, at(90));
  EXPECT_EQ(sample.chunks, 1U);
  EXPECT_TRUE(sample.gaps_ms.empty());
}

TEST(TurnClock, AnAnswerHasContent) {
  TurnClock clock(ConversationId(0), 0, at(0));
  (void)clock.on_chunk("", at(5));
  clock.on_usage(100, 64, 1);
  EXPECT_EQ(clock.check_answer().error().message, "the answer had no content");
  (void)clock.on_chunk("x", at(6));
  EXPECT_TRUE(clock.check_answer());
}

TEST(TurnClock, ChunksOfOneReadHaveNoGap) {
  TurnClock clock(ConversationId(0), 0, at(0));
  clock.on_chunk("a", at(10));
  clock.on_chunk("b", at(10));
  clock.on_chunk("c", at(25));
  EXPECT_EQ(clock.sample().gaps_ms, (std::vector<float>{0, 15}));
}

TEST(TurnClock, TpotNeedsTwoTokens) {
  TurnClock clock(ConversationId(0), 0, at(0));
  clock.on_chunk("a", at(10));
  clock.on_usage(10, 0, 1);
  EXPECT_FALSE(clock.finish(TurnOutcome::kSucceeded, "", at(11)).tpot_ms().has_value());
}

TEST(TurnClock, TpotOfTokensThatCameTogetherIsUnknown) {
  TurnClock clock(ConversationId(0), 0, at(0));
  clock.on_chunk("all of it", at(10));
  clock.on_usage(10, 0, 4);
  const TurnSample sample = clock.finish(TurnOutcome::kSucceeded, "", at(11));
  EXPECT_TRUE(sample.hides_tpot());
  EXPECT_FALSE(sample.tpot_ms().has_value()) << "not 0, which every limit would hold";
}

TEST(TurnClock, TheLastSentReadingCounts) {
  TurnClock clock(ConversationId(0), 0, at(0));
  clock.on_sent(at(1));
  clock.on_sent(at(4));
  clock.on_chunk("a", at(10));
  EXPECT_DOUBLE_EQ(clock.finish(TurnOutcome::kFailed, "broken", at(11)).ttft_ms(), 6);
}

TEST(TurnClock, AChunkOfSeveralTokensIsOneGap) {
  TurnClock clock(ConversationId(0), 0, at(0));
  clock.on_sent(at(0));
  for (const int ms : {100, 120, 140, 160}) clock.on_content(at(ms));
  clock.on_usage(10, 0, 13);  // 1 + 3 x 4 tokens
  const TurnSample sample = clock.finish(TurnOutcome::kSucceeded, "", at(161));
  EXPECT_EQ(sample.chunks, 4U);
  EXPECT_EQ(sample.gaps_ms, (std::vector<float>{20, 20, 20}));
  EXPECT_DOUBLE_EQ(*sample.tpot_ms(), 5);  // 60 ms over 12 tokens
  EXPECT_DOUBLE_EQ(*sample.itl_ms(), 20);
}

TEST(TurnClock, KeepsHowLateEachChunkWasRead) {
  TurnClock clock(ConversationId(0), 0, at(0));
  clock.on_handed(at(1));
  clock.on_sent(at(2));
  clock.on_longest_send(std::chrono::microseconds(500));
  const auto chunk = [&](int ms, ChunkAge age, std::uint32_t chunks = 1) {
    for (std::uint32_t i = 0; i < chunks; ++i) clock.on_content(at(ms));
    clock.on_age(chunks, age);
  };
  using std::chrono::milliseconds;
  chunk(100, {.at_least = milliseconds(1), .at_most = milliseconds(1), .stamped = true});
  chunk(120, {.at_least = milliseconds(2), .at_most = milliseconds(7), .stamped = true}, 2);
  chunk(140, {.at_least = milliseconds(3), .at_most = milliseconds(3), .stamped = true});
  chunk(160, {.at_least = {}, .at_most = milliseconds(4), .stamped = false});
  const TurnSample sample = clock.finish(TurnOutcome::kSucceeded, "", at(161));
  EXPECT_EQ(sample.handed, at(1));
  EXPECT_FLOAT_EQ(sample.longest_send_ms, 0.5F);
  EXPECT_EQ(sample.late_ms, (std::vector<float>{1, 2, 2, 3, 0}));
  EXPECT_EQ(sample.unsure_ms, (std::vector<float>{0, 5, 5, 0, 4}));
  EXPECT_EQ(sample.unstamped, 1U);

  TurnClock sure(ConversationId(0), 0, at(0));
  sure.on_content(at(5));
  sure.on_age(1, {.at_least = milliseconds(1), .at_most = milliseconds(1), .stamped = true});
  EXPECT_TRUE(sure.sample().unsure_ms.empty()) << "no memory for what is 0";
}

TEST(TurnClock, WithoutGapsEverythingElseIsTheSame) {
  TurnClock clock(ConversationId(0), 0, at(0), TurnClock::Gaps::kDrop);
  clock.on_sent(at(0));
  EXPECT_TRUE(clock.on_chunk("a", at(100)));
  clock.on_content(at(130));
  clock.on_content(at(140));
  clock.on_usage(10, 0, 3);
  const TurnSample sample = clock.finish(TurnOutcome::kSucceeded, "", at(141));
  EXPECT_TRUE(sample.gaps_ms.empty());
  EXPECT_EQ(sample.chunks, 3U);
  EXPECT_DOUBLE_EQ(sample.ttft_ms(), 100);
  EXPECT_DOUBLE_EQ(*sample.tpot_ms(), 20);
  EXPECT_DOUBLE_EQ(*sample.itl_ms(), 20);
}

}  // namespace
}  // namespace kvist::workload::turn_clock_test

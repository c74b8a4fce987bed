#include "kvist/analysis/level_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analysis/sample_run.h"

namespace kvist::analysis::level_analysis_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

results::LevelRecord window_of_ten_seconds() {
  results::LevelRecord level;
  level.measure_from = at_ms(10'000);
  level.measure_to = at_ms(20'000);
  return level;
}

TEST(LevelAnalysis, AveragesSnapshotsAndLeavesOutThoseWithoutAValue) {
  results::LevelRecord level = window_of_ten_seconds();
  level.snapshots.resize(3);
  level.snapshots[0].ttft_p50_ms = 100;
  level.snapshots[2].ttft_p50_ms = 200;
  level.snapshots[0].output_tokens_per_s = 30;
  level.snapshots[1].output_tokens_per_s = 0;
  level.snapshots[2].output_tokens_per_s = 60;
  const LevelAnalysis a = analyse(level, {});
  EXPECT_DOUBLE_EQ(a.published.ttft_p50_ms.mean.value(), 150);
  EXPECT_EQ(a.published.ttft_p50_ms.snapshots, 2U);
  EXPECT_DOUBLE_EQ(a.published.output_tokens_per_s.mean.value(), 30);  // a rate of 0 is a value
  EXPECT_EQ(a.published.output_tokens_per_s.snapshots, 3U);
  EXPECT_FALSE(a.published.tpot_p95_ms.mean.has_value());
  EXPECT_EQ(a.published.tpot_p95_ms.snapshots, 0U);
}

TEST(LevelAnalysis, PercentilesAreOverSuccessfulTurnsSentWithinTheWindow) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {
      turn_sent_at(9'999, 1, {}),           // sent in the warm-up
      turn_sent_at(10'000, 100, {10, 30}),  // both ends belong to the window
      turn_sent_at(15'000, 300, {20, 20, 20, 40, 50}),
      turn_sent_at(20'000, 500, {}),  // ends after the window but counts
      turn_sent_at(20'001, 9, {}),    // sent in the drain
      turn_sent_at(15'000, 7, {}),
      turn_sent_at(15'000, 7, {}),
  };
  level.turns[5].outcome = workload::TurnOutcome::kFailed;
  level.turns[6].outcome = workload::TurnOutcome::kAbandoned;
  const LevelAnalysis a = analyse(level, {});
  EXPECT_THAT(a.sorted_ttft_ms, ElementsAre(100, 300, 500));
  EXPECT_EQ(a.exact.ttft_ms.count, 3U);
  EXPECT_DOUBLE_EQ(a.exact.ttft_ms.p50, 300);
  EXPECT_DOUBLE_EQ(a.exact.ttft_ms.p95, 480);
  EXPECT_EQ(a.exact.tpot_ms.count, 2U);  // the third has one token
  EXPECT_DOUBLE_EQ(a.exact.tpot_ms.min, 20);
  EXPECT_DOUBLE_EQ(a.exact.tpot_ms.max, 30);
  EXPECT_EQ(a.exact.itl_ms.count, 7U);
  EXPECT_DOUBLE_EQ(a.exact.itl_ms.p50, 20);
  EXPECT_DOUBLE_EQ(a.exact.itl_ms.max, 50);
  EXPECT_EQ(a.exact.itl_request_mean_ms.count, 2U);
  EXPECT_DOUBLE_EQ(a.exact.itl_request_mean_ms.mean, 25);
  EXPECT_DOUBLE_EQ(a.exact.latency_ms.max, 500);
  EXPECT_DOUBLE_EQ(a.exact.latency_ms.min, 140);
}

TEST(LevelAnalysis, RatesCountWhatHappenedWithinTheWindow) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {
      turn_sent_at(9'000, 500, {400, 100, 100, 100}),  // chunks at 9.5, 9.9, 10.0, 10.1, 10.2 s: three inside
      turn_sent_at(19'000, 500, {400, 1'000}),         // 19.5, 19.9 inside, 20.9 not
      turn_sent_at(12'000, 100, {}),
      turn_sent_at(12'000, 100, {}),
  };
  level.turns[0].completion_tokens = 10;  // two tokens a chunk
  level.turns[1].turn = 2;
  level.turns[2].outcome = workload::TurnOutcome::kFailed;
  level.turns[3].outcome = workload::TurnOutcome::kAbandoned;
  const LevelAnalysis a = analyse(level, {});
  EXPECT_DOUBLE_EQ(a.exact.window_s, 10);
  EXPECT_DOUBLE_EQ(a.exact.output_tokens_per_s.value(), (6.0 + 2.0) / 10);
  EXPECT_DOUBLE_EQ(a.exact.turns_per_s.value(), 0.1);                // the first: a failure is no throughput
  EXPECT_DOUBLE_EQ(a.exact.conversation_starts_per_s.value(), 0.2);  // both turns 0 sent within
}

TEST(LevelAnalysis, GoodTurnsKeepTheLimitsFromWhenTheyWereDue) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {turn_sent_at(12'000, 100, {20}), turn_sent_at(12'000, 100, {20}), turn_sent_at(12'000, 700, {20}),
                 turn_sent_at(12'000, 100, {20})};
  level.turns[1].intended = at_ms(11'000);  // waited for a place
  level.turns[3].outcome = workload::TurnOutcome::kFailed;
  const spec::MethodSpec method{.goodput = {.ttft = std::chrono::milliseconds(600)}};
  const LevelAnalysis closed = analyse(level, method);
  EXPECT_DOUBLE_EQ(closed.exact.goodput_per_s.value(), 0.2) << "without a schedule there is nothing to be late for";
  EXPECT_DOUBLE_EQ(closed.exact.good_pct.value(), 50);
  const LevelAnalysis open = analyse(level, method, Schedule::kOpen);
  EXPECT_DOUBLE_EQ(open.exact.goodput_per_s.value(), 0.1);
  EXPECT_DOUBLE_EQ(open.exact.good_pct.value(), 25);
}

TEST(LevelAnalysis, AnAnswerInOneChunkIsNeitherGoodNorBadByItsTpot) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {turn_sent_at(12'000, 100, {20}), turn_sent_at(12'000, 100, {90}), turn_sent_at(12'000, 100, {}),
                 turn_sent_at(12'000, 700, {}), turn_sent_at(12'000, 100, {})};
  level.turns[2].completion_tokens = level.turns[3].completion_tokens = 5;
  level.turns[4].completion_tokens = 1;  // of one token there is no TPOT that could be too long
  const spec::MethodSpec method{
      .goodput = {.ttft = std::chrono::milliseconds(600), .tpot = std::chrono::milliseconds(50)}};
  const LevelAnalysis a = analyse(level, method);
  EXPECT_DOUBLE_EQ(a.exact.goodput_per_s.value(), 0.2);
  EXPECT_DOUBLE_EQ(a.exact.good_pct.value(), 50) << "too late is bad, whatever its TPOT";
  EXPECT_EQ(a.exact.tpot_ms.count, 2U);
  level.turns = {level.turns[2]};
  const LevelAnalysis unknown = analyse(level, method);
  EXPECT_FALSE(unknown.exact.goodput_per_s.has_value());
  EXPECT_FALSE(unknown.exact.good_pct.has_value());
  const LevelAnalysis by_ttft = analyse(level, {.goodput = {.ttft = std::chrono::milliseconds(600)}});
  EXPECT_DOUBLE_EQ(by_ttft.exact.good_pct.value(), 100);
}

TEST(LevelAnalysis, ALevelWithoutSamplesHasNoFigures) {
  const LevelAnalysis a = analyse({}, {});
  EXPECT_EQ(a.exact.ttft_ms.count, 0U);
  EXPECT_FALSE(a.exact.output_tokens_per_s.has_value());
  EXPECT_FALSE(a.error_pct.has_value());
  EXPECT_FALSE(a.excluded);
  EXPECT_FALSE(a.hit_rate.client_pct.has_value());
  EXPECT_FALSE(a.hit_rate.workers_pct.has_value());
  EXPECT_FALSE(a.hit_rate.difference_points.has_value());
  EXPECT_FALSE(a.prefilled_tokens.has_value());
  EXPECT_FALSE(a.imbalance.has_value());
  EXPECT_FALSE(a.predicted.mean_absolute_error_tokens.has_value());
}

TEST(LevelAnalysis, ASuccessWithoutContentHasNoTtft) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {turn_sent_at(15'000, 100, {})};
  level.turns[0].first_token = level.turns[0].last_token = TimePoint{};
  level.turns[0].completion_tokens = 5;
  const LevelAnalysis a = analyse(level, {});
  EXPECT_EQ(a.exact.ttft_ms.count, 0U);
  EXPECT_EQ(a.exact.tpot_ms.count, 0U);
  EXPECT_EQ(a.exact.latency_ms.count, 1U);
  EXPECT_DOUBLE_EQ(a.exact.output_tokens_per_s.value(), 0);
}

TEST(LevelAnalysis, ErrorsOfTheWindowExcludeALevelAboveTheLimit) {
  results::LevelRecord level = window_of_ten_seconds();
  for (int i = 0; i < 19; ++i) level.turns.push_back(turn_sent_at(15'000, 100, {}));
  level.turns.push_back(turn_sent_at(15'000, 100, {}));
  level.turns.back().outcome = workload::TurnOutcome::kFailed;
  level.turns.push_back(turn_sent_at(15'000, 100, {}));
  level.turns.back().outcome = workload::TurnOutcome::kAbandoned;  // neither success nor error
  level.turns.push_back(turn_sent_at(1'000, 100, {}));
  level.turns.back().outcome = workload::TurnOutcome::kFailed;  // in the warm-up
  LevelAnalysis a = analyse(level, {.max_error_pct = 5});
  EXPECT_DOUBLE_EQ(a.error_pct.value(), 5);
  EXPECT_FALSE(a.excluded);
  EXPECT_EQ(a.window_turns.failed, 1U);
  EXPECT_EQ(a.all_turns.failed, 2U);
  EXPECT_EQ(a.all_turns.abandoned, 1U);
  a = analyse(level, {.max_error_pct = 4.9});
  EXPECT_TRUE(a.excluded);
}

TEST(LevelAnalysis, HitRateCountsTheWholeLevelBesideTheWorkersCounters) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {turn_sent_at(1'000, 1, {}), turn_sent_at(15'000, 1, {}), turn_sent_at(25'000, 1, {})};
  for (workload::TurnSample& turn : level.turns) turn.prompt_tokens = 1'000;
  level.turns[1].cached_tokens = 800;
  level.turns[2].cached_tokens = 700;
  level.turns.push_back(turn_sent_at(15'000, 1, {}));
  level.turns.back().outcome = workload::TurnOutcome::kFailed;
  level.turns.back().prompt_tokens = 50'000;
  level.workers.resize(2);
  level.workers[0].prefix_query_tokens = 1'500;
  level.workers[0].prefix_hit_tokens = 600;
  level.workers[1].prefix_query_tokens = 2'500;
  level.workers[1].prefix_hit_tokens = 1'360;
  level.workers[0].prefilled_tokens = 900;
  level.workers[1].prefilled_tokens = 1'140;
  const LevelAnalysis a = analyse(level, {});
  EXPECT_DOUBLE_EQ(a.hit_rate.client_pct.value(), 50);
  EXPECT_DOUBLE_EQ(a.hit_rate.workers_pct.value(), 49);
  EXPECT_DOUBLE_EQ(a.hit_rate.difference_points.value(), 1);
  EXPECT_EQ(a.prefilled_tokens.value(), 2'040U);
}

TEST(LevelAnalysis, SharesOfWorkersAndTheirImbalance) {
  results::LevelRecord level = window_of_ten_seconds();
  for (const char* worker : {"b", "b", "b", "z", "a", ""}) {
    level.turns.push_back(turn_sent_at(15'000, 1, {}));
    level.turns.back().worker = worker;
  }
  level.workers.resize(3);
  level.workers[0].worker = "b";
  level.workers[1].worker = "a";
  level.workers[2].worker = "idle";
  const LevelAnalysis a = analyse(level, {});
  ASSERT_THAT(a.worker_shares, SizeIs(4));
  EXPECT_EQ(a.worker_shares[0].worker, "b");
  EXPECT_DOUBLE_EQ(a.worker_shares[0].share, 0.6);
  EXPECT_EQ(a.worker_shares[1].worker, "a");
  EXPECT_EQ(a.worker_shares[2].turns, 0U);
  EXPECT_EQ(a.worker_shares[3].worker, "z");
  EXPECT_DOUBLE_EQ(a.imbalance.value(), 0.6 * 4);
}

TEST(LevelAnalysis, ComparesPredictedWithTrueCachedTokens) {
  results::LevelRecord level = window_of_ten_seconds();
  for (int i = 0; i < 3; ++i) {
    level.turns.push_back(turn_sent_at(15'000, 1, {}));
    level.turns.back().cached_tokens = 100;
  }
  level.turns[0].predicted_cached_tokens = 130;
  level.turns[1].predicted_cached_tokens = 90;  // the third has no prediction
  const PredictedCache predicted = analyse(level, {}).predicted;
  EXPECT_EQ(predicted.turns, 2U);
  EXPECT_EQ(predicted.predicted_tokens, 220U);
  EXPECT_EQ(predicted.cached_tokens, 200U);
  EXPECT_DOUBLE_EQ(predicted.mean_absolute_error_tokens.value(), 20);
}

TEST(LevelAnalysis, ReportsWhyTheLoadGeneratorIsDegraded) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {turn_sent_at(15'000, 100, {})};
  level.client = {.loop_delay_p99_ms = 5, .loop_delay_max_ms = 500, .cpu_share = 0.8, .send_delay_p99_ms = 5};
  EXPECT_TRUE(analyse(level, {}).client.ok());  // at the limits: 5 % of 100 ms
  level.client = {.loop_delay_p99_ms = 5.1, .loop_delay_max_ms = 0, .cpu_share = 0.81, .send_delay_p99_ms = 10.1};
  const ClientVerdict verdict = analyse(level, {}).client;
  EXPECT_FALSE(verdict.ok());
  EXPECT_THAT(verdict.reasons,
              ElementsAre(HasSubstr("loop delay p99 5.1 ms is above 5 % of the TTFT p95 (100.0 ms)"),
                          HasSubstr("send delay p99 10.1 ms is above 10 ms"), HasSubstr("CPU share 0.81")));
}

TEST(LevelAnalysis, NonFiniteSamplesAreExcluded) {
  results::LevelRecord level = window_of_ten_seconds();
  level.turns = {turn_sent_at(15'000, 100, {10, 20})};
  level.turns[0].gaps_ms.push_back(std::nanf(""));
  level.snapshots.resize(1);
  level.snapshots[0].ttft_p50_ms = std::nan("");
  const LevelAnalysis a = analyse(level, {});
  EXPECT_EQ(a.exact.itl_ms.count, 2U);
  EXPECT_EQ(a.exact.itl_request_mean_ms.count, 0U);
  EXPECT_FALSE(a.published.ttft_p50_ms.mean.has_value());
}

}  // namespace
}  // namespace kvist::analysis::level_analysis_test

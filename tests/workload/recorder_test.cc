#include "kvist/workload/recorder.h"

#include <gtest/gtest.h>

namespace kvist::workload::recorder_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint at(int ms) {
  return TimePoint{milliseconds(ms)};
}

TurnSample sample_of(TurnOutcome outcome, int sent, int first, int last, int ended, std::uint32_t tokens,
                     std::vector<float> gaps) {
  TurnSample sample;
  sample.outcome = outcome;
  sample.sent = at(sent);
  sample.first_token = at(first);
  sample.last_token = at(last);
  sample.ended = at(ended);
  sample.prompt_tokens = tokens > 0 ? 100 : 0;
  sample.completion_tokens = tokens;
  sample.chunks = static_cast<std::uint32_t>(gaps.size()) + 1;
  sample.gaps_ms = std::move(gaps);
  return sample;
}

/// A turn as the service reports it: start of a conversation, tokens as they arrive, the end.
void play(Recorder& recorder, const TurnSample& sample) {
  recorder.on_conversation_started(sample.sent);
  recorder.on_first_token(sample.first_token, sample.first_token - sample.sent);
  recorder.on_content_chunks(sample.last_token, sample.chunks);
  recorder.on_turn_finished(sample, sample.ended);
}

TEST(Recorder, SnapshotAgreesWithFiguresWorkedOutByHand) {
  Recorder recorder(seconds(10));
  // TTFT 100, 200, 300; TPOT 300/3 = 100, 200/1 = 200, 60/2 = 30; ITL 100, 200, 30; latency 450, 410, 370.
  play(recorder, sample_of(TurnOutcome::kSucceeded, 1000, 1100, 1400, 1450, 4, {50, 100, 150}));
  play(recorder, sample_of(TurnOutcome::kSucceeded, 2000, 2200, 2400, 2410, 2, {200}));
  play(recorder, sample_of(TurnOutcome::kSucceeded, 3000, 3300, 3360, 3370, 3, {20, 40}));
  TurnSample failed = sample_of(TurnOutcome::kFailed, 4000, 0, 0, 4500, 0, {});
  failed.chunks = 0;
  recorder.on_turn_finished(failed, at(4500));

  const Snapshot snapshot = recorder.snapshot(at(5000), 7);
  EXPECT_EQ(snapshot.at, at(5000));
  EXPECT_DOUBLE_EQ(*snapshot.ttft_p50_ms, 200);
  EXPECT_DOUBLE_EQ(*snapshot.ttft_p95_ms, 290);  // linear between 200 and 300
  EXPECT_DOUBLE_EQ(*snapshot.tpot_p50_ms, 100);
  EXPECT_DOUBLE_EQ(*snapshot.tpot_p95_ms, 190);
  EXPECT_DOUBLE_EQ(*snapshot.itl_p50_ms, 100);
  EXPECT_DOUBLE_EQ(*snapshot.itl_p95_ms, 190);
  EXPECT_DOUBLE_EQ(*snapshot.latency_p50_ms, 410);
  EXPECT_DOUBLE_EQ(*snapshot.latency_p95_ms, 446);
  EXPECT_DOUBLE_EQ(snapshot.output_tokens_per_s, 0.9);
  EXPECT_DOUBLE_EQ(snapshot.turns_per_s, 0.3) << "a failure is no throughput";
  EXPECT_DOUBLE_EQ(snapshot.failed_per_s, 0.1);
  EXPECT_DOUBLE_EQ(snapshot.conversation_starts_per_s, 0.3);
  const Snapshot last = recorder.snapshot(at(5000), 7, milliseconds(2500));  // without the first two turns
  EXPECT_DOUBLE_EQ(*last.ttft_p50_ms, 300);
  EXPECT_DOUBLE_EQ(last.turns_per_s, 0.4);
  EXPECT_DOUBLE_EQ(snapshot.error_pct, 25);
  EXPECT_EQ(snapshot.in_flight, 7U);
}

TEST(Recorder, ASnapshotSeesOnlyItsWindow) {
  Recorder recorder(seconds(10));
  play(recorder, sample_of(TurnOutcome::kSucceeded, 1000, 1100, 1200, 1300, 2, {100}));
  play(recorder, sample_of(TurnOutcome::kSucceeded, 9000, 9500, 9600, 9700, 2, {100}));
  EXPECT_DOUBLE_EQ(*recorder.snapshot(at(10'000), 0).ttft_p50_ms, 300);
  EXPECT_DOUBLE_EQ(*recorder.snapshot(at(12'000), 0).ttft_p50_ms, 500);
  const Snapshot empty = recorder.snapshot(at(30'000), 0);
  EXPECT_FALSE(empty.ttft_p50_ms.has_value());
  EXPECT_DOUBLE_EQ(empty.turns_per_s, 0);
  EXPECT_DOUBLE_EQ(empty.error_pct, 0);
  EXPECT_EQ(recorder.count(LatencyMetric::kTtft), 2U);
  EXPECT_DOUBLE_EQ(recorder.sum_ms(LatencyMetric::kTtft), 600);
}

TEST(Recorder, TtftCountsWhenTheFirstTokenArrivesEvenIfTheTurnFailsLater) {
  Recorder recorder(seconds(10));
  recorder.on_first_token(at(1500), milliseconds(250));
  EXPECT_DOUBLE_EQ(*recorder.snapshot(at(1500), 1).ttft_p50_ms, 250);
  recorder.on_turn_finished(sample_of(TurnOutcome::kFailed, 1250, 1500, 1500, 1600, 0, {}), at(1600));
  const Snapshot snapshot = recorder.snapshot(at(1600), 0);
  EXPECT_DOUBLE_EQ(*snapshot.ttft_p50_ms, 250);
  EXPECT_FALSE(snapshot.latency_p50_ms.has_value());
  EXPECT_DOUBLE_EQ(snapshot.turns_per_s, 0);
  EXPECT_DOUBLE_EQ(snapshot.error_pct, 100);
}

TEST(Recorder, TokensCountAsTheyArriveAndUsageAddsWhatChunksHid) {
  Recorder recorder(seconds(10));
  recorder.on_content_chunks(at(1000), 1);
  recorder.on_content_chunks(at(1100), 2);
  EXPECT_EQ(recorder.totals().output_tokens, 3U);
  TurnSample sample = sample_of(TurnOutcome::kSucceeded, 0, 1000, 1100, 1200, 8, {100, 0});
  recorder.on_turn_finished(sample, at(1200));
  EXPECT_EQ(recorder.totals().output_tokens, 8U);
  EXPECT_DOUBLE_EQ(recorder.snapshot(at(1200), 0).output_tokens_per_s, 0.8);
}

TEST(Recorder, AbandonedTurnsAreNeitherSuccessNorError) {
  Recorder recorder(seconds(10));
  play(recorder, sample_of(TurnOutcome::kSucceeded, 1000, 1100, 1200, 1300, 2, {100}));
  recorder.on_turn_finished(sample_of(TurnOutcome::kAbandoned, 1000, 1100, 1200, 1300, 0, {100}), at(1300));
  const Snapshot snapshot = recorder.snapshot(at(1300), 0);
  EXPECT_DOUBLE_EQ(snapshot.turns_per_s, 0.1);
  EXPECT_DOUBLE_EQ(snapshot.error_pct, 0);
  EXPECT_EQ(recorder.count(LatencyMetric::kLatency), 1U);
  EXPECT_EQ(recorder.totals().turns_abandoned, 1U);
  EXPECT_EQ(recorder.take_samples().size(), 2U);
}

TEST(Recorder, WithoutUsageTokensCountByChunks) {
  Recorder recorder(seconds(10));
  play(recorder, sample_of(TurnOutcome::kSucceeded, 1000, 1100, 1200, 1300, 0, {100}));
  EXPECT_EQ(recorder.totals().missing_usage, 1U);
  EXPECT_EQ(recorder.totals().turns_succeeded, 1U);
  EXPECT_EQ(recorder.count(LatencyMetric::kTpot), 1U);
  EXPECT_EQ(recorder.totals().output_tokens, 2U);  // the chunks
}

TEST(Recorder, GapsArePooledOverTurns) {
  Recorder recorder(seconds(10));
  EXPECT_FALSE(recorder.gap_quantile_ms(at(1000), 0.5).has_value());
  recorder.on_gaps(at(1000), std::vector<float>{10, 10, 10, 10, 10, 10, 10, 10, 10});
  recorder.on_gaps(at(1100), std::vector<float>{90});  // one gap of ten, though one of two turns
  EXPECT_NEAR(*recorder.gap_quantile_ms(at(1200), 0.5), 10, 0.2);
  EXPECT_NEAR(*recorder.gap_quantile_ms(at(1200), 0.99), 90, 1);
  EXPECT_EQ(recorder.gap_count(), 10U);
  EXPECT_DOUBLE_EQ(recorder.gap_sum_ms(), 180);
  recorder.begin_run();
  EXPECT_FALSE(recorder.gap_quantile_ms(at(1300), 0.5).has_value());
}

TEST(Recorder, ANewRunStartsWithEmptyWindowsAndKeepsTheTotals) {
  Recorder recorder(seconds(10));
  play(recorder, sample_of(TurnOutcome::kSucceeded, 1000, 1100, 1200, 1300, 2, {100}));
  recorder.begin_run();
  const Snapshot snapshot = recorder.snapshot(at(1400), 0);
  EXPECT_FALSE(snapshot.ttft_p50_ms.has_value());
  EXPECT_DOUBLE_EQ(snapshot.turns_per_s, 0);
  EXPECT_TRUE(recorder.take_samples().empty());
  EXPECT_EQ(recorder.totals().turns_succeeded, 1U);
  EXPECT_EQ(recorder.count(LatencyMetric::kLatency), 1U);
}

TEST(Recorder, SamplesAreTakenOnceAndInOrder) {
  Recorder recorder(seconds(10));
  for (std::uint32_t turn = 0; turn < 3; ++turn) {
    TurnSample sample = sample_of(TurnOutcome::kSucceeded, 0, 1, 2, 3, 2, {1});
    sample.turn = turn;
    recorder.on_turn_finished(sample, at(10));
  }
  const std::vector<TurnSample> samples = recorder.take_samples();
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].turn, 0U);
  EXPECT_EQ(samples[2].turn, 2U);
  EXPECT_TRUE(recorder.take_samples().empty());
}

TEST(Recorder, SamplesBeyondABoundAreRefusedAndCounted) {
  Recorder by_number(seconds(10), {.samples = 2, .bytes = 1U << 20});
  Recorder by_bytes(seconds(10), {.samples = 1000, .bytes = sizeof(TurnSample) + 4000});
  for (int i = 0; i < 3; ++i) {
    by_number.on_turn_finished(sample_of(TurnOutcome::kSucceeded, 0, 1, 2, 3, 2, {1}), at(10));
    by_bytes.on_turn_finished(sample_of(TurnOutcome::kSucceeded, 0, 1, 2, 3, 900, std::vector<float>(900, 1.0F)),
                              at(10));
  }
  EXPECT_EQ(by_number.totals().samples_refused, 1U);
  EXPECT_EQ(by_number.take_samples().size(), 2U);
  EXPECT_EQ(by_bytes.totals().samples_refused, 2U);
  EXPECT_EQ(by_bytes.take_samples().size(), 1U);
  EXPECT_EQ(by_bytes.totals().turns_succeeded, 3U);  // the windows and totals still saw them
  by_bytes.on_turn_finished(sample_of(TurnOutcome::kSucceeded, 0, 1, 2, 3, 2, {1}), at(20));
  EXPECT_EQ(by_bytes.kept_samples(), 1U);  // taking made room again
}

TEST(Recorder, TokensOfAStepCountAsThoseOfItsTurns) {
  Recorder by_turn(seconds(10));
  Recorder by_step(seconds(10));
  for (int step = 1; step <= 1'000; ++step) {
    for (int turn = 0; turn < 64; ++turn) by_turn.on_content_chunks(at(20 * step), 1);
    by_step.on_content_chunks(at(20 * step), 64);
  }
  EXPECT_EQ(by_turn.totals().output_tokens, 64'000U);
  EXPECT_EQ(by_step.totals().output_tokens, 64'000U);
  EXPECT_DOUBLE_EQ(by_turn.snapshot(at(20'000), 0).output_tokens_per_s, 3'200);
  EXPECT_DOUBLE_EQ(by_step.snapshot(at(20'000), 0).output_tokens_per_s, 3'200);
}

TEST(Recorder, TokensBeyondTheChunksCountWhenTheTurnEnds) {
  Recorder recorder(seconds(10));
  TurnSample sample = sample_of(TurnOutcome::kSucceeded, 0, 100, 160, 161, 13, {20, 20, 20});
  recorder.on_first_token(at(100), milliseconds(100));
  recorder.on_content_chunks(at(160), 4);
  EXPECT_EQ(recorder.totals().output_tokens, 4U);
  sample.gaps_ms.clear();  // as if gaps were not kept
  recorder.on_turn_finished(sample, at(161));
  EXPECT_EQ(recorder.totals().output_tokens, 13U);
  const Snapshot snapshot = recorder.snapshot(at(200), 0);
  EXPECT_DOUBLE_EQ(*snapshot.tpot_p50_ms, 5);
  EXPECT_DOUBLE_EQ(*snapshot.itl_p50_ms, 20);
}

}  // namespace
}  // namespace kvist::workload::recorder_test

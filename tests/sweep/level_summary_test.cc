#include "kvist/sweep/level_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::sweep::level_summary_test {
namespace {

using deploy::WorkerMetrics;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

WorkerMetrics reading(double factor) {
  WorkerMetrics m;
  m.worker = "w";
  m.process_start_time_s = 1000;
  m.prefix_query_tokens = 1000 * factor;
  m.prefix_hit_tokens = 900 * factor;
  m.prompt_tokens = 1001 * factor;
  m.generated_tokens = 50 * factor;
  m.preemptions = 2 * factor;
  m.prefilled_tokens = 101 * factor;
  m.evicted_blocks = 7 * factor;
  return m;
}

TEST(SummariseWorkersTest, CountersAreDifferences) {
  std::vector<std::string> remarks;
  const auto records = summarise_workers({.before = {reading(1)}, .during = {}, .after = {reading(4)}}, remarks);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].worker, "w");
  EXPECT_EQ(records[0].prefix_query_tokens, 3000U);
  EXPECT_EQ(records[0].prefix_hit_tokens, 2700U);
  EXPECT_EQ(records[0].prompt_tokens, 3003U);
  EXPECT_EQ(records[0].prefilled_tokens, 303U);
  EXPECT_EQ(records[0].generated_tokens, 150U);
  EXPECT_EQ(records[0].evictions, 21U);
  EXPECT_EQ(records[0].preemptions, 6U);
  EXPECT_EQ(records[0].restarts, 0U);
  EXPECT_FALSE(records[0].acceptance_rate.has_value());
  EXPECT_THAT(remarks, IsEmpty());
}

TEST(SummariseWorkersTest, GaugesAreOfTheSnapshots) {
  std::vector<std::string> remarks;
  WorkerReadings readings{.before = {reading(1)}, .during = {{reading(1)}, {reading(1)}}, .after = {reading(1)}};
  readings.during[0][0].running = 10;
  readings.during[0][0].waiting = 3;
  readings.during[0][0].kv_usage = 0.5;
  readings.during[1][0].running = 20;
  readings.during[1][0].kv_usage = 0.25;
  const auto records = summarise_workers(readings, remarks);
  EXPECT_EQ(records[0].running_mean, 15);
  EXPECT_EQ(records[0].waiting_max, 3);
  EXPECT_EQ(records[0].kv_usage_max, 0.5);
}

TEST(SummariseWorkersTest, ARestartedWorkerCountsFromZeroAndIsRemarked) {
  std::vector<std::string> remarks;
  auto after = reading(2);
  after.process_start_time_s = 2000;
  const auto records = summarise_workers({.before = {reading(5)}, .during = {}, .after = {after}}, remarks);
  EXPECT_EQ(records[0].restarts, 1U);
  EXPECT_EQ(records[0].prefix_query_tokens, 2000U);
  EXPECT_THAT(remarks, ElementsAre(HasSubstr("w restarted")));
}

TEST(SummariseWorkersTest, WithoutKvistsCounterPrefilledIsWhatWasNotFound) {
  std::vector<std::string> remarks;
  auto before = reading(1);
  auto after = reading(3);
  before.prefilled_tokens = after.prefilled_tokens = std::nullopt;
  before.evicted_blocks = after.evicted_blocks = std::nullopt;
  const auto records = summarise_workers({.before = {before}, .during = {}, .after = {after}}, remarks);
  EXPECT_EQ(records[0].prefilled_tokens, 200U);
  EXPECT_FALSE(records[0].evictions.has_value()) << "not known, which is not none";
}

TEST(SummariseWorkersTest, AcceptanceIsOfTheDraftTokensOfTheLevel) {
  std::vector<std::string> remarks;
  auto before = reading(1);
  auto after = reading(1);
  before.draft_tokens = 100;
  before.accepted_draft_tokens = 10;
  after.draft_tokens = 300;
  after.accepted_draft_tokens = 160;
  auto records = summarise_workers({.before = {before}, .during = {}, .after = {after}}, remarks);
  EXPECT_DOUBLE_EQ(records[0].acceptance_rate.value(), 0.75);
  after.draft_tokens = 100;
  records = summarise_workers({.before = {before}, .during = {}, .after = {after}}, remarks);
  EXPECT_FALSE(records[0].acceptance_rate.has_value()) << "nothing was drafted";
}

TEST(SummariseWorkersTest, StepsAreThoseOfTheLevelWhereTheEngineCountsThem) {
  std::vector<std::string> remarks;
  auto before = reading(1);
  auto after = reading(1);
  EXPECT_EQ(summarise_workers({.before = {before}, .during = {}, .after = {after}}, remarks)[0].steps, std::nullopt);
  before.prefill_steps = before.mixed_steps = before.decode_steps = 10;
  after.prefill_steps = 11;
  after.mixed_steps = 12;
  after.decode_steps = 110;
  EXPECT_EQ(summarise_workers({.before = {before}, .during = {}, .after = {after}}, remarks)[0].steps,
            (results::StepCounts{.prefill = 1, .mixed = 2, .decode = 100}));
}

TEST(SummariseClientTest, HealthIsLoadPerTimeAndTheLatenessOfSending) {
  results::LevelRecord level;
  level.turns.resize(3);
  std::vector<workload::TurnSample>& turns = level.turns;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    turns[i].intended = TimePoint(std::chrono::seconds(10));
    turns[i].sent = turns[i].intended + std::chrono::milliseconds(4);
  }
  turns[2].sent = TimePoint{};  // never sent
  const auto health = summarise_client({.loop_delay_p99_ms = 1, .loop_delay_max_ms = 2, .cpu_seconds = 3},
                                       std::chrono::seconds(6), level);
  EXPECT_EQ(health.loop_delay_p99_ms, 1);
  EXPECT_EQ(health.loop_delay_max_ms, 2);
  EXPECT_DOUBLE_EQ(health.cpu_share, 0.5);
  EXPECT_DOUBLE_EQ(health.send_delay_p99_ms, 4);
  EXPECT_EQ(summarise_client({}, Duration(0), {}).send_delay_p99_ms, 0);
}

TEST(SummariseClientTest, TheCertificateHasWhatTheSamplesAndTheProcessSay) {
  results::LevelRecord level;
  level.measure_to = TimePoint(std::chrono::seconds(100));
  workload::TurnSample turn;
  turn.intended = turn.handed = turn.sent = TimePoint(std::chrono::seconds(10));
  turn.first_token = turn.last_token = turn.ended = turn.sent + std::chrono::milliseconds(40);
  turn.chunks = 1;
  turn.late_ms = {3};
  level.turns = {turn};
  const loadgen::ClientLoad load{
      .loop_stalls = 2, .loop_stalled_ms = 55, .run_queue_seconds = 3, .steal_share = 0.01, .refused_starts = {}};
  const auto certificate = summarise_client(load, std::chrono::seconds(60), level).certificate;
  ASSERT_TRUE(certificate.has_value());
  EXPECT_EQ(certificate->chunks, 1U);
  EXPECT_EQ(certificate->stamped_chunks, 1U);
  EXPECT_NEAR(certificate->share(results::BoundedFigure::kTtftP50)->high_ms, 3, 1e-4);
  EXPECT_EQ(certificate->loop_stalls, 2U);
  EXPECT_EQ(certificate->loop_stalled_ms, 55);
  EXPECT_DOUBLE_EQ(certificate->run_queue_share.value(), 0.05);
  EXPECT_EQ(certificate->steal_share, 0.01);
  level.turns.front().late_ms.clear();
  EXPECT_FALSE(summarise_client(load, std::chrono::seconds(60), level).certificate.has_value()) << "it is not known";
}

/// A level of 100 answers after 40 ms whose one chunk was read as it came.
results::LevelRecord level_of_quick_reads() {
  results::LevelRecord level;
  level.measure_to = TimePoint(std::chrono::seconds(100));
  workload::TurnSample turn;
  turn.intended = turn.handed = turn.sent = TimePoint(std::chrono::seconds(10));
  turn.first_token = turn.last_token = turn.ended = turn.sent + std::chrono::milliseconds(40);
  turn.chunks = 1;
  turn.late_ms = {0};
  level.turns.assign(100, turn);
  return level;
}

loadgen::ClientLoad watched_load(bool real_time, double steal_share) {
  loadgen::ClientLoad load{.steal_share = steal_share, .pauses = loadgen::WatchedPauses{}, .refused_starts = {}};
  loadgen::WatchedPauses& watched = *load.pauses;
  for (int i = 0; i < 9'700; ++i) watched.late.record(std::chrono::microseconds(60));
  for (int i = 0; i < 300; ++i) watched.late.record(std::chrono::milliseconds(8));
  watched.pauses = 300;
  watched.real_time = real_time;
  watched.cpu_seconds = 0.6;
  return load;
}

TEST(SummariseClientTest, PausesThatWereWatchedWidenTheBounds) {
  const auto certificate =
      summarise_client(watched_load(true, 0.05), std::chrono::seconds(60), level_of_quick_reads()).certificate;
  ASSERT_TRUE(certificate.has_value() && certificate->pauses.has_value());
  EXPECT_EQ(certificate->pauses->count, 300U);
  EXPECT_DOUBLE_EQ(certificate->pauses->share, 0.03);
  EXPECT_EQ(certificate->pauses->max_ms, 8);
  EXPECT_EQ(certificate->pauses->p99_ms, 8);
  EXPECT_TRUE(certificate->pauses->real_time);
  EXPECT_DOUBLE_EQ(certificate->pauses->cpu_share, 0.01);
  // All answers took 40 ms, so that pauses of 8 ms cannot have made them longer: there would be shorter ones.
  EXPECT_NEAR(certificate->share(results::BoundedFigure::kTtftP99)->high_ms, 0, 1e-4);
  results::LevelRecord level = level_of_quick_reads();
  for (std::size_t i = 0; i < 3; ++i) level.turns[i].first_token += std::chrono::milliseconds(8);
  const auto moved = summarise_client(watched_load(true, 0.05), std::chrono::seconds(60), level).certificate;
  EXPECT_NEAR(moved->share(results::BoundedFigure::kTtftP50)->high_ms, 0, 1e-4);
  EXPECT_NEAR(moved->share(results::BoundedFigure::kTtftP99)->high_ms, 8, 0.1) << "three of a hundred, as pauses make";
}

TEST(SummariseClientTest, AWatcherThatWaitsForItsProcessorSeesNoPausesWhereNothingIsStolen) {
  results::LevelRecord level = level_of_quick_reads();
  for (std::size_t i = 0; i < 3; ++i) level.turns[i].first_token += std::chrono::milliseconds(8);
  const auto high = [&](bool real_time, double steal) {
    const auto client = summarise_client(watched_load(real_time, steal), std::chrono::seconds(60), level);
    EXPECT_TRUE(client.certificate->pauses.has_value());
    return client.certificate->share(results::BoundedFigure::kTtftP99)->high_ms;
  };
  EXPECT_NEAR(high(false, 0), 0, 1e-4);
  EXPECT_NEAR(high(false, 0.01), 8, 0.1);
  EXPECT_NEAR(high(true, 0), 8, 0.1) << "a hypervisor that does not say what it takes";
}

}  // namespace
}  // namespace kvist::sweep::level_summary_test

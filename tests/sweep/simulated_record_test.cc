#include "kvist/sweep/simulated_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::sweep::simulated_record_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TimePoint at(int seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

spec::SweepSpec two_workers() {
  spec::SweepSpec sweep;
  sweep.deployment.workers.resize(2);
  sweep.deployment.workers[0].name = "a";
  sweep.deployment.workers[1].name = "b";
  sweep.deployment.workers[1].kv_blocks = 500;
  sweep.deployment.workers[1].max_batch_size = 16;
  return sweep;
}

/// Two snapshots, two workers; only the second one has non-zero figures.
simulation::LevelOutcome outcome() {
  simulation::LevelOutcome outcome;
  outcome.measure_from = at(60);
  outcome.measure_to = at(260);
  outcome.ended = at(275);
  outcome.snapshots.resize(2);
  outcome.snapshots[1].at = at(260);
  outcome.remarks = {"something happened"};
  outcome.workers.resize(2);
  for (auto& worker : outcome.workers) worker.at_snapshots.resize(2);
  outcome.workers[0].name = "a";
  simulation::WorkerOutcome& b = outcome.workers[1];
  b.name = "b";
  b.at_snapshots[0] = {.running = 4, .waiting = 0, .kv_blocks_total = 500, .kv_blocks_used = 100};
  b.at_snapshots[1] = {.running = 7, .waiting = 3, .kv_blocks_total = 500, .kv_blocks_used = 50};
  b.total = {.prefix_query_tokens = 1'000,
             .prefix_hit_tokens = 640,
             .prompt_tokens = 1'000,
             .prefilled_tokens = 370,
             .generated_tokens = 90,
             .preemptions = 2,
             .draft_tokens = 80,
             .accepted_draft_tokens = 20,
             .evictions = 5};
  b.timeline = {{.at = at(1), .running = 2, .kv_blocks_used = 9, .step_ms = 21.5F}};
  return outcome;
}

const PlannedLevel kLevel{.mode = spec::RoutingMode::kKv, .concurrency = 24, .repetition = 3, .seed = 99};

TEST(SimulatedRecordTest, SaysWhichLevelItIs) {
  const results::LevelRecord record = record_of(two_workers(), kLevel, outcome());
  EXPECT_EQ(record.mode, spec::RoutingMode::kKv);
  EXPECT_EQ(record.concurrency, 24U);
  EXPECT_EQ(record.repetition, 3U);
  EXPECT_EQ(record.seed, 99U);
  EXPECT_EQ(record.started, TimePoint{});
  EXPECT_EQ(record.started_utc, "") << "virtual time has no time of day";
  EXPECT_EQ(record.measure_from, at(60));
  EXPECT_EQ(record.measure_to, at(260));
  EXPECT_EQ(record.snapshots.size(), 2U);
  EXPECT_THAT(record.remarks, ElementsAre("something happened"));
  EXPECT_EQ(record.client.loop_delay_max_ms, 0) << "nothing is late in virtual time";
}

TEST(SimulatedRecordTest, CountersAndGaugesAreThoseOfALiveRecord) {
  const auto workers = record_of(two_workers(), kLevel, outcome()).workers;
  ASSERT_EQ(workers.size(), 2U);
  EXPECT_EQ(workers[0].worker, "a");
  EXPECT_FALSE(workers[0].acceptance_rate.has_value()) << "nothing drafted";
  const results::WorkerLevelRecord& b = workers[1];
  EXPECT_EQ(b.prefix_query_tokens, 1'000U);
  EXPECT_EQ(b.prefix_hit_tokens, 640U);
  EXPECT_EQ(b.prompt_tokens, 1'000U);
  EXPECT_EQ(b.prefilled_tokens, 370U);
  EXPECT_EQ(b.generated_tokens, 90U);
  EXPECT_EQ(b.evictions, 5U);
  EXPECT_EQ(b.preemptions, 2U);
  EXPECT_EQ(b.restarts, 0U);
  EXPECT_DOUBLE_EQ(b.acceptance_rate.value(), 0.25);
  EXPECT_DOUBLE_EQ(b.kv_usage_max, 0.2);
  EXPECT_DOUBLE_EQ(b.running_mean, 5.5);
  EXPECT_DOUBLE_EQ(b.waiting_max, 3);
}

TEST(SimulatedRecordTest, TimelinesCarryTheLimitsOfTheirWorker) {
  const auto timelines = record_of(two_workers(), kLevel, outcome()).timelines;
  ASSERT_EQ(timelines.size(), 1U) << "a worker without readings has none";
  EXPECT_EQ(timelines[0].worker, "b");
  EXPECT_EQ(timelines[0].kv_blocks, 500U);
  EXPECT_EQ(timelines[0].max_batch_size, 16U);
  ASSERT_EQ(timelines[0].points.size(), 1U);
  EXPECT_EQ(timelines[0].points[0].at, at(1));
  EXPECT_EQ(timelines[0].points[0].running, 2U);
  EXPECT_EQ(timelines[0].points[0].kv_blocks_used, 9U);
  EXPECT_EQ(timelines[0].points[0].step_ms, 21.5F);
}

}  // namespace
}  // namespace kvist::sweep::simulated_record_test

#include "kvist/dispatch/fleet.h"

#include <gtest/gtest.h>

namespace kvist::dispatch::fleet_test {
namespace {

class FleetTest : public ::testing::Test {
 protected:
  bool available(std::uint32_t worker) const { return fleet_.views()[worker].available; }
  WorkerHealth health(std::uint32_t worker) const { return fleet_.worker(WorkerId(worker)).health; }
  void bring_up() {
    fleet_.on_success(a_, now_);
    fleet_.on_success(b_, now_);
  }

  Fleet fleet_{{"a", "b"}, {.failures_to_unhealthy = 3}};
  WorkerId a_{0};
  WorkerId b_{1};
  TimePoint now_{std::chrono::seconds(10)};
};

TEST_F(FleetTest, NoWorkerIsAvailableBeforeItsFirstSuccessfulCheck) {
  EXPECT_FALSE(fleet_.any_available());
  EXPECT_TRUE(fleet_.on_success(a_, now_));
  EXPECT_FALSE(fleet_.on_success(a_, now_));
  EXPECT_TRUE(available(0));
  EXPECT_FALSE(available(1));
  EXPECT_EQ(fleet_.worker(a_).since, now_);
  EXPECT_EQ(fleet_.worker(a_).last_problem, "");
  EXPECT_EQ(fleet_.worker(b_).last_problem, "not checked yet");
}

TEST_F(FleetTest, OfTheUsableWorkersThoseThatAreEjectedAreCounted) {
  bring_up();
  fleet_.set_ejection(a_, Ejection::kTrial);
  EXPECT_EQ(fleet_.usable().workers, 2U);
  EXPECT_EQ(fleet_.usable().ejected, 1U);
  for (int i = 0; i < 3; ++i) fleet_.on_failure(a_, "connection refused", now_);
  EXPECT_EQ(fleet_.usable().workers, 1U);
  EXPECT_EQ(fleet_.usable().ejected, 0U) << "nobody could be given requests there anyway";
}

TEST_F(FleetTest, OneFailureMakesAWorkerSuspectAndThreeInARowUnhealthy) {
  bring_up();
  EXPECT_TRUE(fleet_.on_failure(a_, "connection refused", now_));
  EXPECT_EQ(health(0), WorkerHealth::kSuspect);
  EXPECT_FALSE(available(0));
  EXPECT_FALSE(fleet_.on_failure(a_, "connection refused", now_));
  EXPECT_TRUE(fleet_.on_failure(a_, "connection refused", now_));
  EXPECT_EQ(health(0), WorkerHealth::kUnhealthy);
  EXPECT_EQ(fleet_.worker(a_).last_problem, "connection refused");
  EXPECT_EQ(fleet_.worker(a_).failures, 3U);
}

TEST_F(FleetTest, OneSuccessfulCheckRestoresAnyWorker) {
  bring_up();
  for (int i = 0; i < 5; ++i) fleet_.on_failure(a_, "down", now_);
  EXPECT_TRUE(fleet_.on_success(a_, now_));
  EXPECT_TRUE(available(0));
  fleet_.on_failure(a_, "down", now_);
  EXPECT_EQ(health(0), WorkerHealth::kSuspect) << "failures are counted anew after a success";
}

TEST_F(FleetTest, SuspectsAreUsedOnlyWhileNoWorkerIsHealthy) {
  bring_up();
  fleet_.on_failure(a_, "slow", now_);
  EXPECT_FALSE(available(0));
  fleet_.on_failure(b_, "slow", now_);
  EXPECT_TRUE(available(0));
  EXPECT_TRUE(available(1));
  fleet_.on_success(b_, now_);
  EXPECT_FALSE(available(0));
  EXPECT_TRUE(available(1));
}

TEST_F(FleetTest, AFailureOfAWorkerNeverSeenLeavesItUnhealthy) {
  EXPECT_FALSE(fleet_.on_failure(a_, "connection refused", now_));
  EXPECT_EQ(health(0), WorkerHealth::kUnhealthy);
  EXPECT_FALSE(fleet_.any_available());
}

TEST_F(FleetTest, LimitsReachTheRoutersView) {
  const routing::EngineLimits limits{.block_size = 32, .kv_blocks = 100, .max_batch_size = 8, .max_num_tokens = 2048};
  fleet_.set_limits(b_, limits);
  EXPECT_EQ(fleet_.views()[1].limits, limits);
}

TEST_F(FleetTest, AStalledWorkerIsUsedOnlyIfNoOtherIsLeft) {
  bring_up();
  EXPECT_TRUE(fleet_.set_stalled(a_, true, now_));
  EXPECT_FALSE(fleet_.set_stalled(a_, true, now_));
  EXPECT_FALSE(available(0));
  EXPECT_TRUE(available(1));
  fleet_.on_success(a_, now_);
  EXPECT_FALSE(available(0)) << "its process lives, its engine does not go on";
  fleet_.on_failure(b_, "down", now_);
  EXPECT_TRUE(available(1)) << "a suspect before one that stands still";
  EXPECT_FALSE(available(0));
  for (int i = 0; i < 3; ++i) fleet_.on_failure(b_, "down", now_);
  EXPECT_TRUE(available(0));
  EXPECT_TRUE(fleet_.set_stalled(a_, false, now_));
  EXPECT_EQ(fleet_.worker(a_).stalls, 1U);
}

TEST_F(FleetTest, ConfiguredLimitsWinThenReportedThenInferred) {
  for (int i = 0; i < 3; ++i) fleet_.on_load_report(a_, 24, 3);
  EXPECT_EQ(fleet_.views()[0].limits.max_batch_size, 24U);
  EXPECT_EQ(fleet_.batch_slots_source(a_), LimitSource::kInferred);
  EXPECT_EQ(fleet_.batch_slots_source(b_), LimitSource::kUnknown);
  fleet_.set_limits(a_, {.kv_blocks = 100, .max_batch_size = 64});
  EXPECT_EQ(fleet_.views()[0].limits.max_batch_size, 64U);
  EXPECT_EQ(fleet_.batch_slots_source(a_), LimitSource::kReported);
  fleet_.configure_limits(a_, {.max_batch_size = 48});
  EXPECT_EQ(fleet_.views()[0].limits.max_batch_size, 48U);
  EXPECT_EQ(fleet_.views()[0].limits.kv_blocks, 100U);
  EXPECT_EQ(fleet_.batch_slots_source(a_), LimitSource::kConfigured);
}

}  // namespace
}  // namespace kvist::dispatch::fleet_test

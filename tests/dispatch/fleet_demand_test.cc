#include "kvist/dispatch/fleet_demand.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace kvist::dispatch::fleet_demand_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Workers of 10 slots and 100 blocks, each with some requests.
class FleetDemandTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kBlock = 16;

  void set_workers(std::vector<std::uint32_t> requests,
                   routing::EngineLimits limits = {.block_size = kBlock, .kv_blocks = 100, .max_batch_size = 10}) {
    fleet_.assign(requests.size(), {.available = true, .limits = limits});
    loads_ = routing::LoadTracker(requests.size());
    for (std::uint32_t worker = 0; worker < requests.size(); ++worker)
      for (std::uint32_t i = 0; i < requests[worker]; ++i)
        loads_.add(
            {.id = RequestId(++last_), .worker = WorkerId(worker), .prompt_tokens = kBlock, .blocks = one_block()});
  }
  // Each request has a block of its own.
  routing::BlockKeys one_block() {
    return std::make_shared<const std::vector<kv::BlockHash>>(
        kv::hash_blocks(kv::root_hash({.model = "m", .lora = "", .cache_salt = std::to_string(last_)}),
                        std::vector<TokenId>(kBlock), kBlock));
  }
  void sample(FleetDemand& demand, Duration length, double prefill_ms_per_s = 0) {
    if (now_ == TimePoint{}) demand.sample(state(), now_);
    for (const TimePoint end = now_ + length; now_ < end;) {
      now_ += seconds(1);
      prefill_ms_ += prefill_ms_per_s;
      demand.sample(state(), now_);
    }
  }
  FleetDemand::State state() const {
    return {.fleet = fleet_,
            .loads = loads_,
            .block_size = kBlock,
            .routed_prefill_ms = prefill_ms_,
            .has_no_room = [this](WorkerId worker) { return worker == no_room_; }};
  }

  std::vector<routing::WorkerView> fleet_;
  routing::LoadTracker loads_{0};
  std::uint64_t last_ = 0;
  double prefill_ms_ = 0;
  TimePoint now_{};
  std::optional<WorkerId> no_room_;
};

TEST_F(FleetDemandTest, SaysNothingBeforeItsWindowIsOver) {
  FleetDemand demand({.utilisation = 0.5, .window = seconds(30)});
  EXPECT_EQ(demand.wanted(), std::nullopt);
  set_workers({2, 4});
  sample(demand, seconds(29));
  EXPECT_EQ(demand.wanted(), std::nullopt);
  EXPECT_NEAR(demand.demand().slots, 0.6, 1e-9) << "the means are right from the first sample on";
  sample(demand, seconds(1));
  EXPECT_EQ(demand.wanted(), 2U);
}

TEST_F(FleetDemandTest, TheScarcestResourceDecides) {
  FleetDemand demand({.utilisation = 0.5, .window = seconds(30)});
  set_workers({5, 5}, {.block_size = kBlock, .kv_blocks = 5, .max_batch_size = 10});
  sample(demand, seconds(300), 1'600);
  EXPECT_NEAR(demand.demand().slots, 1, 1e-3);
  EXPECT_NEAR(demand.demand().memory, 2, 1e-3);
  EXPECT_NEAR(demand.demand().prefill, 1.6, 1e-3);
  EXPECT_EQ(demand.wanted(), 4U) << "memory, at half of each worker's";
  sample(demand, seconds(300), 2'400);
  EXPECT_EQ(demand.wanted(), 5U) << "prefill: 2.4 workers' time";
}

TEST_F(FleetDemandTest, LimitsInOtherBlocksAreConverted) {
  FleetDemand demand({.utilisation = 1, .window = seconds(30)});
  set_workers({5}, {.block_size = 2 * kBlock, .kv_blocks = 5, .max_batch_size = 0});
  sample(demand, seconds(60));
  EXPECT_NEAR(demand.demand().memory, 0.5, 1e-9);
  EXPECT_EQ(demand.demand().slots, 0) << "its slots are not known";
}

TEST_F(FleetDemandTest, AWorkerWithoutRoomHasItsMemoryInUse) {
  FleetDemand demand({.utilisation = 1, .window = seconds(30)});
  set_workers({5, 5});
  no_room_ = WorkerId(1);
  sample(demand, seconds(60));
  EXPECT_NEAR(demand.demand().memory, 1.05, 1e-9);
}

TEST_F(FleetDemandTest, AQueueCountsByWhatComesAndNotByItsLength) {
  FleetDemand demand({.utilisation = 1, .window = seconds(30)});
  set_workers({500, 500});
  for (int second = 0; second < 300; ++second) {
    for (int i = 0; i < 15; ++i) demand.on_started();
    for (int i = 0; i < 10; ++i) demand.on_ended();
    sample(demand, seconds(1));
  }
  EXPECT_NEAR(demand.demand().slots, 2, 1e-3);
  EXPECT_NEAR(demand.demand().pressure, 1.5, 1e-3);
  EXPECT_EQ(demand.wanted(), 3U);
}

TEST_F(FleetDemandTest, RefusedRequestsCountAsWhatComes) {
  FleetDemand demand({.utilisation = 1, .window = seconds(30)});
  set_workers({5, 5});  // refused for prefill: slots are free
  for (int second = 0; second < 300; ++second) {
    for (int i = 0; i < 10; ++i) demand.on_started();
    for (int i = 0; i < 10; ++i) demand.on_refused();
    for (int i = 0; i < 10; ++i) demand.on_ended();
    sample(demand, seconds(1), 2'000);
  }
  EXPECT_NEAR(demand.demand().pressure, 2, 1e-3);
  EXPECT_EQ(demand.wanted(), 4U);
}

TEST_F(FleetDemandTest, ABurstThatTheFleetHasRoomForIsNoOverload) {
  FleetDemand demand({.utilisation = 1, .window = seconds(30)});
  set_workers({5, 5});
  for (int i = 0; i < 10; ++i) demand.on_started();
  sample(demand, seconds(60));
  EXPECT_EQ(demand.demand().pressure, 1);
  EXPECT_EQ(demand.wanted(), 1U);
}

TEST_F(FleetDemandTest, WhileNothingIsFinishedTheDemandIsBounded) {
  FleetDemand demand({.utilisation = 1, .window = seconds(30)});
  set_workers({500, 500});
  for (int second = 0; second < 60; ++second) {
    demand.on_started();
    sample(demand, seconds(1));
  }
  EXPECT_EQ(demand.wanted(), 2 * FleetDemand::kMostPressure);
}

TEST_F(FleetDemandTest, AnOutageOfTheWholeFleetChangesNothing) {
  FleetDemand demand({.utilisation = 0.5, .window = seconds(30)});
  set_workers({5, 5, 5});
  sample(demand, seconds(60));
  EXPECT_EQ(demand.wanted(), 3U);
  for (routing::WorkerView& worker : fleet_) worker.available = false;
  for (int i = 0; i < 600; ++i) {
    demand.on_refused();
    sample(demand, seconds(1));
  }
  EXPECT_EQ(demand.wanted(), 3U);
  set_workers({5, 5, 5});
  sample(demand, seconds(1));
  EXPECT_EQ(demand.wanted(), 3U) << "what came in the meantime is forgotten";
  EXPECT_EQ(demand.demand().pressure, 1);
}

TEST_F(FleetDemandTest, AnIdleFleetWantsOneWorker) {
  FleetDemand demand({});
  set_workers({0, 0, 0});
  sample(demand, seconds(60));
  EXPECT_EQ(demand.wanted(), 1U);
}

}  // namespace
}  // namespace kvist::dispatch::fleet_demand_test

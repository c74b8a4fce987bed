#include "kvist/routing/usable_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace kvist::routing::usable_workers_test {
namespace {

std::vector<WorkerView> fleet_of(std::size_t workers) {
  return std::vector<WorkerView>(workers, {.available = true, .max_model_len = 1'000});
}

std::vector<std::uint32_t> ids(const UsableWorkers& usable) {
  std::vector<std::uint32_t> ids;
  for (const UsableWorker& one : usable.all()) ids.push_back(one.worker.value());
  return ids;
}

TEST(UsableWorkers, AFleetThatIsStillTheSameIsNotReadAgain) {
  std::vector<WorkerView> fleet = fleet_of(4);
  fleet[2].available = false;
  UsableWorkers usable(4);
  EXPECT_TRUE(usable.begin_with_available(FleetView(fleet, 1), 100));
  EXPECT_EQ(ids(usable), (std::vector<std::uint32_t>{0, 1, 3}));
  EXPECT_FALSE(usable.is_whole_fleet());
  EXPECT_EQ(usable.longest_prompt(), 999U);
  EXPECT_FALSE(usable.begin_with_available(FleetView(fleet, 1), 200));
  EXPECT_EQ(usable.at(WorkerId(3)).prompt_tokens, 200U);
  fleet[2] = {.available = true, .max_model_len = 0, .most_waiting = 1};
  EXPECT_TRUE(usable.begin_with_available(FleetView(fleet, 2), 200));
  EXPECT_TRUE(usable.is_whole_fleet());
  EXPECT_TRUE(usable.any_new());
  EXPECT_EQ(usable.longest_prompt(), 999U);
}

TEST(UsableWorkers, AFleetWithoutAVersionIsReadEachTime) {
  std::vector<WorkerView> fleet = fleet_of(2);
  UsableWorkers usable(2);
  EXPECT_TRUE(usable.begin_with_available(fleet, 100));
  fleet[0].available = false;
  EXPECT_TRUE(usable.begin_with_available(fleet, 100));
  EXPECT_EQ(ids(usable), (std::vector<std::uint32_t>{1}));
  EXPECT_FALSE(usable.contains(WorkerId(0)));
}

TEST(UsableWorkers, WhatOneRequestFoundIsNotThereForTheNext) {
  const std::vector<WorkerView> fleet = fleet_of(3);
  UsableWorkers usable(3);
  (void)usable.begin_with_available(FleetView(fleet, 1), 100);
  usable.set_cached(WorkerId(1), 64);
  usable.replicate([](const UsableWorker& one) { return one.cached_tokens > 0 ? 0U : 32U; });
  std::vector<std::uint32_t> others(usable.others().begin(), usable.others().end());
  std::ranges::sort(others);
  EXPECT_EQ(others, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_FALSE(usable.begin_with_available(FleetView(fleet, 1), 100));
  EXPECT_TRUE(usable.others().empty());
  EXPECT_EQ(usable.at(WorkerId(1)).cached_tokens, 0U);
  EXPECT_EQ(usable.at(WorkerId(2)).replicate_tokens, 0U);
}

TEST(UsableWorkers, WhoWasLeftOutOfOneRequestMayTakeTheNext) {
  const std::vector<WorkerView> fleet = fleet_of(3);
  UsableWorkers usable(3);
  (void)usable.begin_with_available(FleetView(fleet, 1), 100);
  usable.set_cached(WorkerId(2), 64);
  usable.erase_if([](const UsableWorker& one) { return one.worker == WorkerId(0); });
  EXPECT_EQ(ids(usable), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(usable.at(WorkerId(2)).cached_tokens, 64U);
  ASSERT_EQ(usable.others().size(), 1U);
  EXPECT_EQ(usable[usable.others().front()].worker, WorkerId(2));
  EXPECT_TRUE(usable.begin_with_available(FleetView(fleet, 1), 100));
  EXPECT_EQ(ids(usable), (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(UsableWorkers, LengthsOfThePromptMayDiffer) {
  UsableWorkers usable(3);
  usable.begin();
  usable.add({.worker = WorkerId(0), .prompt_tokens = 100});
  usable.add({.worker = WorkerId(1), .prompt_tokens = 90});
  usable.add({.worker = WorkerId(2), .prompt_tokens = 100, .cached_tokens = 32});
  EXPECT_EQ(usable.prompt_tokens(), 100U);
  EXPECT_EQ(usable.least_prompt_tokens(), 90U);
  EXPECT_EQ(std::vector<std::uint32_t>(usable.others().begin(), usable.others().end()),
            (std::vector<std::uint32_t>{1, 2}));
}

}  // namespace
}  // namespace kvist::routing::usable_workers_test

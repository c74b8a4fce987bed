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

std::vector<std::uint32_t> blocks(std::vector<std::uint32_t> by_worker) {
  by_worker.resize(WorkerLanes::padded(by_worker.size()), 7);  // which nobody may read as a worker's
  return by_worker;
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
  usable.set_cached(blocks({0, 2, 0}), 32);
  usable.replicate(blocks({0, 2, 1}), 2, 32);
  EXPECT_EQ(usable.at(WorkerId(0)).replicate_tokens, 64U);
  EXPECT_EQ(usable.at(WorkerId(1)).replicate_tokens, 0U);
  EXPECT_EQ(usable.at(WorkerId(2)).replicate_tokens, 32U);
  EXPECT_TRUE(usable.others().empty()) << "the prompt has one length";
  EXPECT_FALSE(usable.begin_with_available(FleetView(fleet, 1), 100));
  EXPECT_TRUE(usable.missing().empty());
  EXPECT_EQ(usable.at(WorkerId(1)).cached_tokens, 0U);
  EXPECT_EQ(usable.at(WorkerId(2)).replicate_tokens, 0U);
}

TEST(UsableWorkers, WhoWasLeftOutOfOneRequestMayTakeTheNext) {
  const std::vector<WorkerView> fleet = fleet_of(3);
  UsableWorkers usable(3);
  (void)usable.begin_with_available(FleetView(fleet, 1), 100);
  usable.set_cached(blocks({1, 0, 2}), 32);
  usable.erase_if([](const UsableWorker& one) { return one.worker == WorkerId(0); });
  EXPECT_EQ(ids(usable), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(usable.at(WorkerId(2)).cached_tokens, 64U);
  EXPECT_EQ(usable.cached()[0], 0U) << "it is not usable";
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
            (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(usable.cached()[2], 32U);
}

TEST(UsableWorkers, TheLastTokenIsComputedWhateverIsCached) {
  std::vector<WorkerView> fleet = fleet_of(7);  // more than fit into whole lanes
  fleet[1].available = false;
  UsableWorkers usable(7);
  (void)usable.begin_with_available(FleetView(fleet, 1), 96);
  usable.set_cached(blocks({3, 3, 2, 1, 0, ~0U, 3}), 32);
  const std::vector<std::uint32_t> cached(usable.cached().begin(), usable.cached().begin() + 7);
  EXPECT_EQ(cached, (std::vector<std::uint32_t>{64, 0, 64, 32, 0, 64, 64}));
  (void)usable.begin_with_available(FleetView(fleet, 1), 0);
  usable.set_cached(blocks({3, 3, 2, 1, 0, 0, 3}), 32);
  EXPECT_EQ(std::ranges::count(usable.cached(), 0U), std::ssize(usable.cached())) << "there is no token";
}

TEST(UsableWorkers, WhatIsMissingOfACopyIsAskedOfEveryWorker) {
  const std::vector<WorkerView> fleet = fleet_of(9);
  UsableWorkers usable(9);
  (void)usable.begin_with_available(FleetView(fleet, 1), 1'000);
  usable.replicate(blocks({0, 1, 2, 3, 4, 5, 0, 9, 2}), 3, 32);
  std::vector<std::uint32_t> missing;
  for (const UsableWorker& one : usable.all()) missing.push_back(one.replicate_tokens);
  EXPECT_EQ(missing, (std::vector<std::uint32_t>{96, 64, 32, 0, 0, 0, 96, 0, 32})) << "who has more lacks nothing";
  usable.erase_if([](const UsableWorker& one) { return one.worker == WorkerId(0); });
  EXPECT_EQ(usable.at(WorkerId(6)).replicate_tokens, 96U) << "of those who are left nothing has changed";
}

TEST(UsableWorkers, WhoHasMoreCachedThanTheBestSoFarIsVisited) {
  const std::vector<WorkerView> fleet = fleet_of(9);
  UsableWorkers usable(9);
  (void)usable.begin_with_available(FleetView(fleet, 1), 1'000);
  usable.set_cached(blocks({1, 0, 3, 2, 3, 4, 0, 0, 5}), 32);
  std::vector<std::uint32_t> visited;
  std::uint32_t most = 32;
  usable.for_each_cached_above(most, [&](WorkerId worker, std::uint32_t tokens) {
    visited.push_back(worker.value());
    most = tokens;
  });
  EXPECT_EQ(visited, (std::vector<std::uint32_t>{2, 5, 8}));
}

}  // namespace
}  // namespace kvist::routing::usable_workers_test

#include "kvist/routing/worker_set.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::routing::worker_set_test {
namespace {

std::vector<std::uint32_t> members(const WorkerSet& set) {
  std::vector<std::uint32_t> result;
  set.for_each([&](WorkerId worker) { result.push_back(worker.value()); });
  return result;
}

std::vector<std::uint32_t> members(const std::set<std::uint32_t>& set) {
  return {set.begin(), set.end()};
}

TEST(WorkerSet, HoldsOneWorkerOfAnyNumber) {
  WorkerSet set;
  EXPECT_TRUE(set.empty());
  set.insert(WorkerId(900));
  EXPECT_TRUE(set.contains(WorkerId(900)));
  EXPECT_FALSE(set.contains(WorkerId(900 - 64)));
  set.erase(WorkerId(3));
  EXPECT_EQ(members(set), std::vector<std::uint32_t>{900});
  set.erase(WorkerId(900));
  EXPECT_TRUE(set.empty());
  set.insert(WorkerId(2));  // another word, with nothing left in the first
  EXPECT_EQ(members(set), std::vector<std::uint32_t>{2});
}

TEST(WorkerSet, MeansTheSameAsAStandardSet) {
  for (const std::int64_t workers : {3, 64, 200}) {
    SCOPED_TRACE(workers);
    RandomStream random(static_cast<std::uint64_t>(workers));
    WorkerSet sets[2];
    std::set<std::uint32_t> expected[2];
    for (int step = 0; step < 5'000; ++step) {
      const auto i = static_cast<std::size_t>(random.uniform_int(0, 1));
      const auto worker = static_cast<std::uint32_t>(random.uniform_int(0, workers - 1));
      if (random.uniform_int(0, 1) == 0) {
        sets[i].insert(WorkerId(worker));
        expected[i].insert(worker);
      } else {
        sets[i].erase(WorkerId(worker));
        expected[i].erase(worker);
      }
      ASSERT_EQ(members(sets[i]), members(expected[i]));
      ASSERT_EQ(sets[i].empty(), expected[i].empty());
    }
    WorkerSet both = sets[0];
    std::vector<std::uint32_t> left;
    both.intersect(sets[1], [&](WorkerId worker) { left.push_back(worker.value()); });
    std::vector<std::uint32_t> kept_expected;
    std::vector<std::uint32_t> left_expected;
    for (const std::uint32_t worker : expected[0]) {
      (expected[1].contains(worker) ? kept_expected : left_expected).push_back(worker);
    }
    EXPECT_EQ(members(both), kept_expected);
    EXPECT_EQ(left, left_expected);
    EXPECT_EQ(members(sets[0]), members(expected[0]));  // the copy was one
  }
}

}  // namespace
}  // namespace kvist::routing::worker_set_test

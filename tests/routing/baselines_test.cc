#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/routing/affinity_policies.h"
#include "kvist/routing/policy.h"
#include "kvist/routing/published_policies.h"

namespace kvist::routing::baselines_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Lt;
using ::testing::SizeIs;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Workers with so many requests in flight.
std::vector<Candidate> loaded(const std::vector<std::uint32_t>& requests) {
  std::vector<Candidate> result;
  for (std::uint32_t i = 0; i < requests.size(); ++i) {
    result.push_back({.worker = WorkerId(i), .load = {.requests = requests[i]}});
  }
  return result;
}

std::vector<Candidate> without(std::vector<Candidate> from, std::uint32_t worker) {
  std::erase_if(from, [&](const Candidate& candidate) { return candidate.worker == WorkerId(worker); });
  return from;
}

PolicyQuery query(std::uint64_t request, std::span<const kv::BlockHash> blocks = {}, std::uint64_t session = 0) {
  return {
      .request = RequestId(request), .prompt_tokens = 1'000, .block_size = 32, .blocks = blocks, .session = session};
}

std::uint32_t worker_for(RoutingPolicy& policy, const PolicyQuery& asked, std::vector<Candidate> from) {
  return from[policy.choose(asked, from)].worker.value();
}

std::vector<kv::BlockHash> prompt(std::uint64_t prefix, std::uint64_t rest) {
  std::vector<kv::BlockHash> blocks;
  for (std::uint64_t i = 0; i < 8; ++i) blocks.emplace_back(mix_seed({prefix, i}));
  for (std::uint64_t i = 0; i < 20; ++i) blocks.emplace_back(mix_seed({prefix, rest, i}));
  return blocks;
}

TEST(PowerOfTwo, TakesTheEmptierOfTwoAndNeverTheFullestOfThree) {
  const auto policy = make_policy(spec::RoutingMode::kPowerOfTwo, 5);
  std::map<std::uint32_t, int> hits;
  for (std::uint64_t request = 1; request <= 600; ++request)
    ++hits[worker_for(*policy, query(request), loaded({4, 9, 6}))];
  EXPECT_EQ(hits[1], 0);
  // Worker 0 wins both of its pairs, worker 2 the one with worker 1.
  EXPECT_NEAR(hits[0], 400, 60);
  EXPECT_NEAR(hits[2], 200, 60);
}

TEST(PowerOfTwo, DrawsTwoDistinctWorkersByRequestAndSeed) {
  const auto policy = make_policy(spec::RoutingMode::kPowerOfTwo, 5);
  const auto again = make_policy(spec::RoutingMode::kPowerOfTwo, 5);
  for (std::uint64_t request = 1; request <= 100; ++request) {
    auto from = loaded({1, 1, 1, 1});
    const std::size_t chosen = policy->choose(query(request), from);
    EXPECT_EQ(std::ranges::count(from, kInfinity, &Candidate::cost), 2);
    EXPECT_EQ(from[chosen].cost, 1);
    EXPECT_EQ(worker_for(*again, query(request), loaded({1, 1, 1, 1})), chosen);
  }
  EXPECT_EQ(worker_for(*policy, query(1), loaded({7})), 0U);
}

TEST(Sglang, GoesForTheCacheAboveItsThreshold) {
  SglangPolicy policy({});
  auto from = loaded({3, 5, 4});
  from[1].cached_tokens = 320;
  from[2].cached_tokens = 320;
  EXPECT_EQ(worker_for(policy, query(1), from), 2U);  // of equals the less loaded
  from[1].cached_tokens = 352;
  EXPECT_EQ(worker_for(policy, query(1), from), 1U);
  from[1].cached_tokens = from[2].cached_tokens = 300;  // not more than 0.3 of 1,000
  EXPECT_EQ(worker_for(policy, query(1), from), 0U);
}

TEST(Sglang, BalancesOnlyWhereBothThresholdsArePassed) {
  SglangPolicy policy({});
  auto from = loaded({80, 16, 30});
  from[0].cached_tokens = 960;
  EXPECT_EQ(worker_for(policy, query(1), from), 0U);  // 80 - 16 is not more than 64
  from[0].load.requests = 81;
  EXPECT_EQ(worker_for(policy, query(1), from), 1U);
  for (Candidate& candidate : from) candidate.load.requests += 200;
  EXPECT_EQ(worker_for(policy, query(1), from), 0U);  // 281 is not more than 1.5 x 216
}

TEST(HashRingTest, AWorkerThatLeavesMovesOnlyItsOwnKeys) {
  HashRing ring(150);
  ring.cover(5);
  HashRing grown(150);
  grown.cover(2);
  grown.cover(5);
  std::map<std::uint32_t, int> keys;
  for (std::uint64_t key = 0; key < 5'000; ++key) {
    const WorkerId home = *ring.first(key, [](WorkerId) { return true; });
    const WorkerId without_3 = *ring.first(key, [](WorkerId worker) { return worker != WorkerId(3); });
    EXPECT_TRUE(home == WorkerId(3) ? without_3 != home : without_3 == home);
    EXPECT_EQ(*grown.first(key, [](WorkerId) { return true; }), home);
    ++keys[home.value()];
  }
  EXPECT_THAT(keys, SizeIs(5));
  for (const auto& [worker, count] : keys) EXPECT_NEAR(count, 1'000, 350) << worker;
  EXPECT_FALSE(ring.first(1, [](WorkerId) { return false; }).has_value());
}

TEST(HashRingTest, AWorkerThatJoinsTakesKeysAndMovesNoOthers) {
  HashRing four(256);
  four.cover(4);
  HashRing five(256);
  five.cover(5);
  int moved = 0;
  for (std::uint64_t key = 0; key < 5'000; ++key) {
    const WorkerId before = *four.first(key, [](WorkerId) { return true; });
    const WorkerId after = *five.first(key, [](WorkerId) { return true; });
    if (before == after) continue;
    EXPECT_EQ(after, WorkerId(4));
    ++moved;
  }
  EXPECT_NEAR(moved, 1'000, 250);
}

TEST(BoundedHash, APrefixHasOneWorkerWhateverFollows) {
  BoundedHashPolicy policy({});
  std::set<std::uint32_t> homes;
  for (std::uint64_t prefix = 1; prefix <= 50; ++prefix) {
    const auto first = prompt(prefix, 1);
    const auto second = prompt(prefix, 2);
    const std::uint32_t home = worker_for(policy, query(1, first), loaded({0, 0, 0}));
    EXPECT_EQ(worker_for(policy, query(2, second), loaded({0, 0, 0})), home);
    homes.insert(home);
  }
  EXPECT_THAT(homes, ElementsAre(0, 1, 2));
}

TEST(BoundedHash, LeavesAWorkerThatIsOverTheBoundAndComesBack) {
  BoundedHashPolicy policy({});
  const auto blocks = prompt(7, 1);
  const std::uint32_t home = worker_for(policy, query(1, blocks), loaded({0, 0, 0}));
  std::vector<std::uint32_t> requests(3, 20);
  requests[home] = 27;  // 28 > 1.25 x 68 / 3 = 28.33 is false: within
  EXPECT_EQ(worker_for(policy, query(1, blocks), loaded(requests)), home);
  requests[home] = 28;  // 29 > 1.25 x 69 / 3 = 28.75: over
  auto from = loaded(requests);
  const std::size_t other = policy.choose(query(1, blocks), from);
  EXPECT_NE(other, home);
  EXPECT_EQ(from[home].cost, kInfinity);
  EXPECT_EQ(from[other].cost, 0);
  EXPECT_EQ(worker_for(policy, query(1, blocks), loaded({5, 5, 5})), home);
}

TEST(BoundedHash, TakesTheFirstOnTheRingWhereAllAreOver) {
  BoundedHashPolicy policy({});
  const auto blocks = prompt(7, 1);
  const std::uint32_t home = worker_for(policy, query(1, blocks), loaded({0, 0, 0}));
  // One request each: 2 > 1.25 x 4 / 3.
  auto from = loaded({1, 1, 1});
  EXPECT_EQ(policy.choose(query(1, blocks), from), home);
  EXPECT_EQ(std::ranges::count(from, kInfinity, &Candidate::cost), 2);
}

TEST(BoundedHash, TakesPromptsWithoutABlock) {
  BoundedHashPolicy policy({});
  EXPECT_EQ(worker_for(policy, query(1), loaded({0, 0, 0})), worker_for(policy, query(2), loaded({0, 0, 0})));
}

TEST(Session, StaysWithItsWorkerWhateverTheLoad) {
  SessionPolicy policy;
  std::set<std::uint32_t> homes;
  for (std::uint64_t session = 1; session <= 50; ++session) {
    const std::uint32_t home = worker_for(policy, query(1, {}, session), loaded({0, 0, 0}));
    std::vector<std::uint32_t> requests(3, 0);
    requests[home] = 1'000;
    EXPECT_EQ(worker_for(policy, query(2, {}, session), loaded(requests)), home);
    homes.insert(home);
  }
  EXPECT_THAT(homes, ElementsAre(0, 1, 2));
}

TEST(Session, MovesWhileItsWorkerIsGoneAndReturns) {
  SessionPolicy policy;
  const auto all = loaded({0, 0, 0, 0});
  for (std::uint64_t session = 1; session <= 50; ++session) {
    const std::uint32_t home = worker_for(policy, query(1, {}, session), all);
    const std::uint32_t gone = (home + 1) % 4;
    EXPECT_EQ(worker_for(policy, query(2, {}, session), without(all, gone)), home);
    const std::uint32_t stand_in = worker_for(policy, query(3, {}, session), without(all, home));
    EXPECT_NE(stand_in, home);
    EXPECT_EQ(worker_for(policy, query(4, {}, session), without(all, home)), stand_in);
    EXPECT_EQ(worker_for(policy, query(5, {}, session), all), home);
  }
}

TEST(Session, WithoutASessionGoesToTheLeastLoaded) {
  SessionPolicy policy;
  EXPECT_EQ(worker_for(policy, query(1), loaded({2, 1, 3})), 1U);
  std::vector<std::uint32_t> order;
  for (std::uint64_t request = 2; request <= 4; ++request) {
    order.push_back(worker_for(policy, query(request), loaded({0, 0, 0})));
  }
  EXPECT_THAT(order, ElementsAre(2, 0, 1));
}

TEST(PolicyState, ContinuesThePolicyItCameFrom) {
  for (const spec::RoutingMode mode : spec::kRoutingModes) {
    const std::uint64_t seed = 11;
    RandomStream random(seed);
    const auto policy = make_policy(mode, seed);
    for (std::uint64_t request = 1; request <= 200; ++request) {
      const auto resumed = make_policy(mode, seed);
      resumed->set_state(policy->state());
      std::vector<std::uint32_t> requests(5);
      for (auto& count : requests) count = static_cast<std::uint32_t>(random.uniform_int(0, 3));
      const auto gone = static_cast<std::uint32_t>(random.uniform_int(0, 5));
      const auto from = without(loaded(requests), gone);
      const std::uint64_t session = request % 3;
      EXPECT_EQ(worker_for(*policy, query(request, {}, session), from),
                worker_for(*resumed, query(request, {}, session), from))
          << to_string(mode) << " request " << request;
    }
  }
}

TEST(PolicyState, TakesAnyNumber) {
  for (const spec::RoutingMode mode : spec::kRoutingModes) {
    const auto policy = make_policy(mode, 1);
    policy->set_state(std::numeric_limits<std::uint64_t>::max());
    EXPECT_THAT(worker_for(*policy, query(1), loaded({0, 0, 0})), Lt(3U)) << to_string(mode);
  }
}

}  // namespace
}  // namespace kvist::routing::baselines_test

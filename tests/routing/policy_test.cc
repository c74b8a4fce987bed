#include "kvist/routing/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kvist/routing/published_policies.h"

namespace kvist::routing::policy_test {
namespace {

using ::testing::ElementsAre;

std::vector<Candidate> candidates(std::initializer_list<std::uint32_t> workers) {
  std::vector<Candidate> result;
  for (const std::uint32_t worker : workers) result.push_back({.worker = WorkerId(worker), .load = {}});
  return result;
}

PolicyQuery query(std::uint64_t request, std::uint32_t prompt_tokens = 100, std::uint32_t block_size = 10) {
  return {.request = RequestId(request), .prompt_tokens = prompt_tokens, .block_size = block_size};
}

std::uint32_t chosen(RoutingPolicy& policy, std::vector<Candidate> from, std::uint64_t request = 1) {
  return from[policy.choose(query(request), from)].worker.value();
}

TEST(RoundRobin, GivesEachWorkerItsTurn) {
  const auto policy = make_policy(spec::RoutingMode::kRoundRobin, 1);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(chosen(*policy, candidates({0, 1, 2})));
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(RoundRobin, KeepsTheOrderWhenAWorkerComesAndGoes) {
  const auto policy = make_policy(spec::RoutingMode::kRoundRobin, 1);
  EXPECT_EQ(chosen(*policy, candidates({0, 1, 2})), 0U);
  EXPECT_EQ(chosen(*policy, candidates({0, 2})), 2U);
  EXPECT_EQ(chosen(*policy, candidates({0, 1, 2})), 0U);
  EXPECT_EQ(chosen(*policy, candidates({0, 1, 2})), 1U);
}

TEST(Random, DependsOnTheRequestAndTheSeedOnly) {
  const auto a = make_policy(spec::RoutingMode::kRandom, 7);
  const auto b = make_policy(spec::RoutingMode::kRandom, 7);
  const auto other_seed = make_policy(spec::RoutingMode::kRandom, 8);
  std::set<std::uint32_t> seen;
  int differing = 0;
  for (std::uint64_t request = 1; request <= 200; ++request) {
    const auto first = chosen(*a, candidates({0, 1, 2}), request);
    EXPECT_EQ(first, chosen(*b, candidates({0, 1, 2}), request));
    if (first != chosen(*other_seed, candidates({0, 1, 2}), request)) ++differing;
    seen.insert(first);
  }
  EXPECT_THAT(seen, ElementsAre(0, 1, 2));
  EXPECT_GT(differing, 50);
}

TEST(LeastLoaded, TakesTheFewestRequestsAndEqualsInTurn) {
  const auto policy = make_policy(spec::RoutingMode::kLeastLoaded, 1);
  auto loaded = candidates({0, 1, 2});
  loaded[0].load.requests = 3;
  loaded[1].load.requests = 1;
  loaded[2].load.requests = 2;
  EXPECT_EQ(chosen(*policy, loaded), 1U);
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 4; ++i) order.push_back(chosen(*policy, candidates({0, 1, 2})));
  EXPECT_THAT(order, ElementsAre(2, 0, 1, 2));
}

TEST(DynamoCost, WithoutLoadIsPromptBlocksLessOverlapPlusFootprint) {
  // 100 tokens in blocks of 10; 6 blocks cached: prefill 10 - 6 = 4; footprint 10.
  EXPECT_DOUBLE_EQ(dynamo_cost({.prompt_tokens = 100, .block_size = 10, .overlap_blocks = 6, .new_blocks = 10}, {}),
                   14);
}

TEST(DynamoCost, AddsPrefillAndBlocksUnderWay) {
  // prefill (250 + 105) / 10 = 35.5, less 4 cached = 31.5; decode 30 + 7 = 37.
  const DynamoCostInputs inputs{.prompt_tokens = 105,
                                .block_size = 10,
                                .active_prefill_tokens = 250,
                                .min_active_prefill_tokens = 0,
                                .overlap_blocks = 4,
                                .active_blocks = 30,
                                .new_blocks = 7,
                                .active_requests = 9};
  EXPECT_DOUBLE_EQ(dynamo_cost(inputs, {}), 68.5);
  EXPECT_DOUBLE_EQ(dynamo_cost(inputs, {.prefill_load_scale = 2}), 100);
  EXPECT_DOUBLE_EQ(dynamo_cost(inputs, {.decode_active_request_weight = 0.5}), 73);
  EXPECT_DOUBLE_EQ(dynamo_cost(inputs, {.overlap_score_credit = 0}), 72.5);
}

TEST(DynamoCost, DecaysTheCreditWithTheBacklogAboveTheLeast) {
  // Excess (250 - 30) / 10 = 22 blocks over ceil(105 / 10) = 11 prompt blocks: decay 1 / (1 + 0.5 * 2) = 0.5.
  const DynamoCostInputs inputs{.prompt_tokens = 105,
                                .block_size = 10,
                                .active_prefill_tokens = 250,
                                .min_active_prefill_tokens = 30,
                                .overlap_blocks = 4,
                                .new_blocks = 10};
  EXPECT_DOUBLE_EQ(dynamo_cost(inputs, {.overlap_score_credit_decay = 0.5}), 35.5 - 2 + 10);
}

TEST(DynamoCost, PrefillNeverGoesBelowZero) {
  EXPECT_DOUBLE_EQ(dynamo_cost({.prompt_tokens = 95, .block_size = 10, .overlap_blocks = 10, .new_blocks = 9}, {}), 9);
}

TEST(DynamoPolicyTest, WeighsTheCacheAgainstTheLoad) {
  const auto policy = make_policy(spec::RoutingMode::kDynamo, 1);
  auto two = candidates({0, 1});
  two[0].cached_blocks = 6;
  two[0].new_blocks = 4;
  two[0].load.prompt_blocks = 6;
  two[1].new_blocks = 10;
  EXPECT_EQ(policy->choose(query(1), two), 0U);  // 4 + 10 against 10 + 10
  EXPECT_DOUBLE_EQ(two[0].cost, 14);
  EXPECT_DOUBLE_EQ(two[1].cost, 20);
  two[0].load.prefill_tokens = 70;  // 7 blocks wait there: 11 + 10 against 20
  EXPECT_EQ(policy->choose(query(2), two), 1U);
}

TEST(DynamoPolicyTest, BreaksTiesAtRandomByRequest) {
  const auto policy = make_policy(spec::RoutingMode::kDynamo, 3);
  const auto again = make_policy(spec::RoutingMode::kDynamo, 3);
  std::vector<int> hits(3);
  for (std::uint64_t request = 1; request <= 300; ++request) {
    const auto worker = chosen(*policy, candidates({0, 1, 2}), request);
    EXPECT_EQ(worker, chosen(*again, candidates({0, 1, 2}), request));
    ++hits[worker];
  }
  for (const int count : hits) EXPECT_GT(count, 60);
}

}  // namespace
}  // namespace kvist::routing::policy_test

#include "kvist/routing/cache_policies.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace kvist::routing::cache_policies_test {
namespace {

constexpr std::uint32_t kPrompt = 1'000;

/// One worker of a table.
struct Row {
  std::uint32_t requests = 0;
  std::uint32_t cached_tokens = 0;
  std::uint64_t prefill_tokens = 0;
};

std::vector<Candidate> workers(const std::vector<Row>& rows) {
  std::vector<Candidate> result;
  for (const Row& row : rows) {
    const WorkerId worker(static_cast<std::uint32_t>(result.size()));
    result.push_back({.worker = worker, .cached_tokens = row.cached_tokens, .load = {}});
    result.back().load.requests = row.requests;
    result.back().load.decoding = row.requests;
    result.back().load.prefill_tokens = row.prefill_tokens;
    result.back().limits.kv_blocks = 100;
  }
  return result;
}

PolicyQuery query(std::uint64_t request = 1) {
  return {.request = RequestId(request), .prompt_tokens = kPrompt, .block_size = 32};
}

std::uint32_t chosen(RoutingPolicy& policy, std::vector<Candidate> from) {
  return from[policy.choose(query(), from)].worker.value();
}

TEST(MostCached, TakesTheDeepestCacheHoweverLoaded) {
  MostCachedPolicy policy;
  EXPECT_EQ(chosen(policy, workers({{0, 0}, {50, 64}, {9, 32}})), 1U);
}

TEST(MostCached, OfEqualsTheLessLoaded) {
  MostCachedPolicy policy;
  EXPECT_EQ(chosen(policy, workers({{4, 0}, {2, 0}, {3, 0}})), 1U);
  EXPECT_EQ(chosen(policy, workers({{4, 64}, {0, 0}, {3, 64}})), 2U);
}

TEST(Smg, LeavesTheCacheOnlyForAWorkerFarAboveTheMean) {
  SmgPolicy policy({});
  EXPECT_EQ(chosen(policy, workers({{60, 600}, {0, 0}})), 0U);     // 60 of a mean of 30: less than 64 more
  EXPECT_EQ(chosen(policy, workers({{160, 600}, {0, 0}})), 1U);    // 160 of 80: 80 more, and twice the mean
  EXPECT_EQ(chosen(policy, workers({{400, 600}, {300, 0}})), 0U);  // 400 of 350: not half as many again
}

TEST(Smg, BelowTheThresholdTheLeastLoaded) {
  SmgPolicy policy({});
  EXPECT_EQ(chosen(policy, workers({{3, 300}, {1, 0}})), 1U);
  EXPECT_EQ(chosen(policy, workers({{3, 301}, {1, 0}})), 0U);
}

TEST(LlmD, AddsQueueMemoryAndTwiceThePrefix) {
  LlmDPolicy policy({}, 1);
  std::vector<Candidate> from = workers({{0, 500}, {0, 0}, {0, 0}});
  from[0].load = {.requests = 4, .decoding = 0, .prompt_blocks = 50};  // queue 0, memory 0.5, prefix 2 x 0.5
  from[1].load = {.requests = 2, .decoding = 0, .prompt_blocks = 0};   // queue 0.5, memory 1
  from[2].load = {.requests = 0, .decoding = 0, .prompt_blocks = 80};  // queue 1, memory 0.2
  EXPECT_LT(policy.choose(query(), from), 2U);
  EXPECT_DOUBLE_EQ(from[0].cost, -1.5);
  EXPECT_DOUBLE_EQ(from[1].cost, -1.5);
  EXPECT_DOUBLE_EQ(from[2].cost, -1.2);
}

TEST(LlmD, EqualsAreDrawnByRequest) {
  LlmDPolicy policy({}, 1);
  std::vector<int> hits(3);
  for (std::uint64_t request = 1; request <= 300; ++request) {
    std::vector<Candidate> from = workers({{1, 0}, {1, 0}, {1, 0}});
    ++hits[policy.choose(query(request), from)];
  }
  for (const int count : hits) EXPECT_NEAR(count, 100, 35);
}

TEST(Lmetric, TakesTheLeastProduct) {
  LmetricPolicy policy;
  std::vector<Candidate> from = workers({{4, 900, 0}, {1, 0, 0}, {2, 0, 100}});
  EXPECT_EQ(policy.choose(query(), from), 0U);  // 100 x 4 against 1,000 x 1 and 1,100 x 2
  EXPECT_DOUBLE_EQ(from[0].cost, 400);
  EXPECT_DOUBLE_EQ(from[2].cost, 2'200);
}

TEST(Lmetric, OfIdleWorkersTheOneWithLeastToPrefill) {
  LmetricPolicy policy;
  EXPECT_EQ(chosen(policy, workers({{0, 0}, {0, 64}, {1, 900}})), 1U);
}

TEST(Smetric, StaysWhileTheLimitIsMetThereOrNowhere) {
  SmetricPolicy policy({});  // the limit is 1,000 ms + 62.5 ms for 1,000 tokens
  std::vector<Candidate> from = workers({{9, 600}, {1, 0}});
  from[0].forecast.queue_ms = 1'000;
  EXPECT_EQ(chosen(policy, from), 0U);
  from[0].forecast.queue_ms = 1'100;
  EXPECT_EQ(chosen(policy, from), 1U);
  from[1].forecast.prefill_ms = 1'100;
  EXPECT_EQ(chosen(policy, from), 0U);
}

TEST(Smetric, AnEvictedSessionGoesWhereLeastIsToDoAndEqualsTakeTurns) {
  SmetricPolicy policy({});
  EXPECT_EQ(chosen(policy, workers({{9, 500}, {1, 0}})), 1U);  // the first turn is taken
  std::vector<std::uint32_t> turns;
  for (int i = 0; i < 4; ++i) turns.push_back(chosen(policy, workers({{0, 0}, {1, 0}, {0, 0}})));
  EXPECT_EQ(turns, (std::vector<std::uint32_t>{2, 0, 2, 0}));
  SmetricPolicy again({});
  again.set_state(policy.state());
  EXPECT_EQ(chosen(again, workers({{0, 0}, {1, 0}, {0, 0}})), 2U);
}

TEST(Preble, ExploitsWhereMoreIsCachedThanNot) {
  PreblePolicy policy;
  std::vector<Candidate> from = workers({{5, 501}, {0, 0}, {1, 501}});
  from[0].forecast = {.step_ms = 20, .step_with_ms = 21, .answer_tokens = 100, .mean_requests = 5};
  from[2].forecast = {.step_ms = 20, .step_with_ms = 21, .answer_tokens = 100, .mean_requests = 1};
  EXPECT_EQ(policy.choose(query(), from), 2U);
  EXPECT_DOUBLE_EQ(from[0].cost, 500);
  EXPECT_DOUBLE_EQ(from[2].cost, 100);
}

TEST(Preble, ExploresByLoadCostElse) {
  PreblePolicy policy;
  std::vector<Candidate> from = workers({{5, 500}, {0, 0}, {1, 400}});
  from[0].forecast.queue_ms = 90;
  from[1].forecast.prefill_ms = 80;
  from[2].forecast = {.queue_ms = 20, .prefill_ms = 50};
  EXPECT_EQ(policy.choose(query(), from), 2U);
  from[2].forecast.displaced_ms = 11;  // it evicts what has to be computed again
  EXPECT_EQ(policy.choose(query(), from), 1U);
}

}  // namespace
}  // namespace kvist::routing::cache_policies_test

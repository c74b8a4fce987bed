#include "kvist/analysis/cache_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>

namespace kvist::analysis::cache_oracle_test {
namespace {

using testing::ElementsAre;

TimePoint at_s(int seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

OracleRequest request(std::vector<Extent> prompt, std::vector<Extent> leaves = {}, std::size_t worker = 0) {
  return {.sent = {}, .answered = {}, .worker = worker, .prompt = std::move(prompt), .leaves = std::move(leaves)};
}

TEST(CacheOracle, AnEndlessCacheHasWhatWasSentBeforeUpToTheFirstDifference) {
  const std::vector<OracleRequest> requests = {
      request({{.key = 1, .blocks = 10}}, {{.key = 2, .blocks = 4}}),
      request({{.key = 1, .blocks = 10}, {.key = 2, .blocks = 4}, {.key = 3, .blocks = 2}}),
      request({{.key = 9, .blocks = 10}, {.key = 2, .blocks = 4}}),  // a block is found only behind what is before it
      request({{.key = 1, .blocks = 6}}),                            // a part of what is there
  };
  EXPECT_THAT(endless_reuse(requests), ElementsAre(0, 14, 0, 6));
}

TEST(CacheOracle, ABoundedCacheKeepsWhatIsNeededSoonest) {
  const std::vector<OracleRequest> requests = {request({{.key = 1, .blocks = 4}}), request({{.key = 2, .blocks = 4}}),
                                               request({{.key = 3, .blocks = 4}}), request({{.key = 2, .blocks = 4}}),
                                               request({{.key = 1, .blocks = 4}})};
  EXPECT_EQ(bounded_reuse(requests, 8), 8U) << "3 is not kept, for nobody asks for it again";
  EXPECT_EQ(bounded_reuse(requests, 6), 6U) << "of 1, which is needed last, two blocks";
  EXPECT_EQ(bounded_reuse(requests, 4), 4U);
  EXPECT_EQ(bounded_reuse(requests, 0), 0U);
}

TEST(CacheOracle, BoundsTellWhatRoutingAndWhatMemoryCost) {
  // Two conversations, whose second turns went to the other worker.
  const std::vector<OracleRequest> requests = {
      request({{.key = 1, .blocks = 10}}, {}, 0), request({{.key = 2, .blocks = 10}}, {}, 1),
      request({{.key = 1, .blocks = 10}}, {}, 1), request({{.key = 2, .blocks = 10}}, {}, 1)};
  const std::vector<std::uint64_t> sizes = {10, 5};
  const CacheBounds bounds = cache_bounds(requests, 16, sizes);
  EXPECT_EQ(bounds.endless, 16U * 20);
  EXPECT_EQ(bounds.routed_endless, 16U * 10) << "the first conversation's went elsewhere";
  EXPECT_EQ(bounds.fleet, 16U * 15);
  EXPECT_EQ(bounds.routed, 16U * 5);
  EXPECT_TRUE(bounds.sizes_known);
  EXPECT_FALSE(cache_bounds(requests, 16, {}).sizes_known);
}

TEST(CacheOracle, ARequestThatDoesNotCountOnlyLeavesItsBlocks) {
  std::vector<OracleRequest> requests = {request({{.key = 1, .blocks = 10}}), request({{.key = 1, .blocks = 10}}),
                                         request({{.key = 1, .blocks = 10}})};
  requests[0].counts = requests[1].counts = false;  // both failed, and the third is the only one whose prompt counts
  const std::vector<std::uint64_t> sizes = {20};
  const CacheBounds bounds = cache_bounds(requests, 16, sizes);
  for (const std::uint64_t tokens : {bounds.endless, bounds.routed_endless, bounds.fleet, bounds.routed}) {
    EXPECT_EQ(tokens, 16U * 10);
  }
  requests[2].counts = false;
  EXPECT_EQ(cache_bounds(requests, 16, sizes).endless, 0U);
  EXPECT_EQ(cache_bounds(requests, 16, sizes).routed, 0U);
}

TEST(CacheOracle, ARequestMayFindWhatOthersSentBeforeItsAnswerButNothingOfItsOwn) {
  std::vector<OracleRequest> requests = {request({{.key = 1, .blocks = 10}}), request({{.key = 1, .blocks = 10}}),
                                         request({{.key = 1, .blocks = 10}})};
  requests[0].sent = at_s(0);
  requests[0].answered = at_s(5);
  requests[1].sent = at_s(1);  // overtook the first
  requests[1].answered = at_s(2);
  requests[2].sent = at_s(6);
  requests[2].answered = at_s(7);
  EXPECT_THAT(findable(requests), ElementsAre(10, 10, 10));
  requests[1].sent = at_s(6);  // too late for the first, and the first is before it
  requests[1].answered = at_s(7);
  EXPECT_THAT(findable(requests), ElementsAre(0, 10, 10));
  EXPECT_THAT(findable(std::vector{requests[0]}), ElementsAre(0));
}

/// The best that any choice of what to keep can do, by trying all of them. Extents are single blocks, in trees of depth
/// two: key k has the parent k / 10 if that is above 0.
std::uint64_t best_by_trying(const std::vector<OracleRequest>& requests, std::uint64_t capacity,
                             const std::vector<std::uint64_t>& keys) {
  const auto bit_of = [&](std::uint64_t key) {
    return 1U << static_cast<unsigned>(std::ranges::find(keys, key) - keys.begin());
  };
  std::map<unsigned, std::uint64_t> best = {{0, 0}};  // what is kept -> hits so far
  for (const OracleRequest& request : requests) {
    std::map<unsigned, std::uint64_t> next;
    unsigned wanted = 0;
    for (const Extent& extent : request.prompt) wanted |= bit_of(extent.key);
    for (const auto& [kept, hits] : best) {
      std::uint64_t now = hits;
      for (const Extent& extent : request.prompt) {
        if ((kept & bit_of(extent.key)) == 0) break;
        now += request.counts ? 1 : 0;
      }
      const unsigned all = kept | wanted;
      for (unsigned subset = all;; subset = (subset - 1) & all) {
        if (static_cast<std::uint64_t>(std::popcount(subset)) <= capacity) next[subset] = std::max(next[subset], now);
        if (subset == 0) break;
      }
    }
    best = std::move(next);
  }
  std::uint64_t most = 0;
  for (const auto& [kept, hits] : best) most = std::max(most, hits);
  return most;
}

TEST(CacheOracle, NoChoiceOfWhatToKeepReusesMore) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::vector<std::uint64_t> keys = {1, 2, 11, 12, 21, 22, 23};
  for (int round = 0; round < 200; ++round) {
    std::vector<OracleRequest> requests;
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t key = keys[random() % keys.size()];
      std::vector<Extent> prompt;
      if (key >= 10) prompt.push_back({.key = key / 10, .blocks = 1});
      prompt.push_back({.key = key, .blocks = 1});
      requests.push_back(request(std::move(prompt)));
      requests.back().counts = random() % 4 != 0;
    }
    for (const std::uint64_t capacity : {1U, 2U, 3U, 5U}) {
      ASSERT_EQ(bounded_reuse(requests, capacity), best_by_trying(requests, capacity, keys))
          << round << ", " << capacity;
    }
    std::uint64_t endless = 0;
    const std::vector<std::uint64_t> reused = endless_reuse(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) endless += requests[i].counts ? reused[i] : 0;
    ASSERT_EQ(bounded_reuse(requests, 100), endless);
  }
}

}  // namespace
}  // namespace kvist::analysis::cache_oracle_test

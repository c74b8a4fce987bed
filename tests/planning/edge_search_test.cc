#include "kvist/planning/edge_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kvist/base/random.h"

namespace kvist::planning::edge_search_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

/// A predicate without doubt that counts its evaluations.
struct Sure {
  std::function<bool(std::uint32_t)> holds;
  std::multiset<std::uint32_t> looks;

  Result<Edge> find(const EdgeSearchOptions& options) {
    return find_edge(
        [this](std::uint32_t number) -> Result<Look> {
          looks.insert(number);
          return Look{.holds = holds(number), .sure = true};
        },
        options);
  }
};

TEST(FindEdge, FindsAnyEdgeExactlyWithFewLooksEachAtANewNumber) {
  for (std::uint32_t edge = 0; edge <= 120; ++edge) {
    Sure sure{.holds = [edge](std::uint32_t number) { return number <= edge; }, .looks = {}};
    const auto found = sure.find({.start = 24, .limit = 1'000, .probes_below = 0});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->last, edge);
    EXPECT_EQ(found->sure_last, edge);
    EXPECT_EQ(found->at_most, edge);
    EXPECT_FALSE(found->at_limit);
    EXPECT_LE(sure.looks.size(), 12U) << edge;
    for (const std::uint32_t number : sure.looks) EXPECT_EQ(sure.looks.count(number), 1U) << number;
  }
}

TEST(FindEdge, ReportsThatTheLimitHolds) {
  Sure sure{.holds = [](std::uint32_t) { return true; }, .looks = {}};
  const auto found = sure.find({.start = 10, .limit = 100});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->at_limit);
  EXPECT_EQ(found->last, 100);
  EXPECT_EQ(found->at_most, 100);
}

TEST(FindEdge, AHoleBelowMovesTheEdgeToItAndTheRestIsAnIsland) {
  // Breaks from 97 to 180 and holds again from 181 to 192: growing steps 24, 48, 96, 192 jump over the hole.
  Sure sure{.holds = [](std::uint32_t n) { return n <= 96 || (n >= 181 && n <= 192); }, .looks = {}};
  const auto found = sure.find({.start = 24, .limit = 1'000});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->last, 96);
  EXPECT_EQ(found->at_most, 96);
  EXPECT_THAT(found->holds_again, Contains(192));
}

TEST(FindEdge, IslandsAboveAreFoundWhereItIsToldToLook) {
  Sure sure{.holds = [](std::uint32_t n) { return n <= 50 || n == 192; }, .looks = {}};
  const auto found = sure.find({.start = 30, .limit = 1'000, .probe_to = 192});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->last, 50);
  EXPECT_THAT(found->holds_again, ElementsAre(192));
}

TEST(FindEdge, DoubtWidensTheInterval) {
  // The best guess changes at 100, but only below 90 and from 110 on it is sure.
  const auto found =
      find_edge([](std::uint32_t n) -> Result<Look> { return Look{.holds = n <= 100, .sure = n < 90 || n >= 110}; },
                {.start = 24, .limit = 1'000});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->last, 100);
  EXPECT_EQ(found->sure_last, 89);
  EXPECT_EQ(found->at_most, 109);
  EXPECT_THAT(found->holds_again, IsEmpty());
}

TEST(FindEdge, PassesErrorsOn) {
  const auto found = find_edge([](std::uint32_t) -> Result<Look> { return fail(ErrorCode::kInternal, "no"); }, {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "no");
}

TEST(FindEdge, LargeEdgesAreFoundToAPercent) {
  Sure sure{.holds = [](std::uint32_t n) { return n <= 33'333; }, .looks = {}};
  const auto found = sure.find({.start = 1, .limit = 100'000, .probes_below = 0});
  ASSERT_TRUE(found);
  EXPECT_LE(found->last, 33'333U);
  EXPECT_GE(found->last, 33'000U);
  EXPECT_GE(found->at_most, 33'333U);
  EXPECT_LT(sure.looks.size(), 26U);
}

TEST(FindEdge, ACoarserResolutionNeedsFewerLooks) {
  const auto looks = [](double resolution) {
    Sure sure{.holds = [](std::uint32_t n) { return n <= 33'333; }, .looks = {}};
    const auto found = sure.find({.start = 1'000, .limit = 100'000, .resolution = resolution, .probes_below = 0});
    EXPECT_TRUE(found);
    EXPECT_LE(found->last, 33'333U);
    EXPECT_GE(found->last, 33'333U * (1 - resolution));
    EXPECT_GE(found->at_most, 33'333U);
    EXPECT_LE(found->at_most, 33'333U * (1 + resolution));
    return sure.looks.size();
  };
  EXPECT_EQ(looks(0.01), 14U);
  EXPECT_EQ(looks(0.05), 12U);
}

/// Whatever the evaluations return, the result is ordered and consistent with all of them.
TEST(FindEdge, HoldsItsPromisesOnRandomPredicates) {
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    SCOPED_TRACE(seed);
    std::map<std::uint32_t, Look> seen;
    const auto look = [&](std::uint32_t n) -> Result<Look> {
      RandomStream random(mix_seed({seed, n}));
      const double centre = 60;
      const bool holds = static_cast<double>(n) + random.normal(0, 12) < centre;
      const Look one{.holds = holds, .sure = random.uniform() < 0.6};
      EXPECT_TRUE(seen.emplace(n, one).second);
      return one;
    };
    const auto found =
        find_edge(look, {.start = 1 + static_cast<std::uint32_t>(seed % 90), .limit = 200, .probe_to = 150});
    ASSERT_TRUE(found);
    EXPECT_LE(found->sure_last, found->last);
    EXPECT_LE(found->last, found->at_most);
    EXPECT_EQ(found->looked_at.size(), seen.size());
    for (const auto& [number, one] : seen) {
      EXPECT_TRUE(one.holds || number > found->last) << number;
      EXPECT_TRUE(one.holds || !one.sure || number > found->at_most) << number;
      const bool island = std::ranges::count(found->holds_again, number) > 0;
      EXPECT_EQ(island, number > found->at_most && one.holds) << number;
    }
  }
}

}  // namespace
}  // namespace kvist::planning::edge_search_test

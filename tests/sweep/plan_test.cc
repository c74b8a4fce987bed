#include "kvist/sweep/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace kvist::sweep::plan_test {
namespace {

using spec::RoutingMode;
using testing::ElementsAre;
using testing::Pair;

spec::SweepSpec sweep() {
  spec::SweepSpec spec;
  spec.modes = {RoutingMode::kKv, RoutingMode::kRoundRobin, RoutingMode::kRandom};
  spec.levels = {12, 24, 36};
  spec.workload.seed = 5;
  return spec;
}

std::vector<std::uint64_t> seeds(const PlannedMode& mode) {
  std::vector<std::uint64_t> result;
  for (const PlannedLevel& level : mode.levels) result.push_back(level.seed);
  return result;
}

TEST(PlanTest, EachModeGoesThroughAllLevelsInTheOrderOfTheSpecification) {
  const auto plan = make_plan(sweep());
  ASSERT_EQ(plan.size(), 3U);
  EXPECT_EQ(plan[0].mode, RoutingMode::kKv);
  EXPECT_EQ(plan[1].mode, RoutingMode::kRoundRobin);
  EXPECT_EQ(plan[2].mode, RoutingMode::kRandom);
  for (const PlannedMode& mode : plan) {
    std::vector<std::uint32_t> levels;
    for (const PlannedLevel& level : mode.levels) {
      levels.push_back(level.concurrency);
      EXPECT_EQ(level.mode, mode.mode);
    }
    EXPECT_THAT(levels, ElementsAre(12, 24, 36));
  }
}

TEST(PlanTest, ModesShareSeedsAndLevelsDoNot) {
  const auto plan = make_plan(sweep());
  EXPECT_EQ(seeds(plan[0]), seeds(plan[1]));
  EXPECT_EQ(seeds(plan[0]), seeds(plan[2]));
  const auto of_mode = seeds(plan[0]);
  EXPECT_EQ(std::set(of_mode.begin(), of_mode.end()).size(), 3U);
}

TEST(PlanTest, ALoadThatGoesOnHasTheSeedOfItsLowestLevelAndEndsWithItsRepetition) {
  auto spec = sweep();
  spec.method.repetitions = 2;
  const std::vector<PlannedMode> drained = make_plan(spec);
  EXPECT_EQ(loads_of(drained[0], spec).size(), 6U);
  EXPECT_EQ(loads_of(drained[0], spec)[1].size(), 1U);
  spec.method.between_levels = spec::BetweenLevels::kContinue;
  const std::vector<PlannedMode> plan = make_plan(spec);
  const std::uint64_t first = drained[0].levels[0].seed;
  const std::uint64_t second = drained[0].levels[3].seed;
  EXPECT_THAT(seeds(plan[0]), ElementsAre(first, first, first, second, second, second));
  const auto loads = loads_of(plan[1], spec);
  ASSERT_EQ(loads.size(), 2U);
  EXPECT_THAT(std::vector(loads[1].begin(), loads[1].end()),
              ElementsAre(plan[1].levels[3], plan[1].levels[4], plan[1].levels[5]));
}

TEST(PlanTest, ASeedFollowsFromRunSeedAndConcurrencyAlone) {
  auto other = sweep();
  other.levels = {24};
  other.modes = {RoutingMode::kDynamo};
  EXPECT_EQ(make_plan(other)[0].levels[0].seed, make_plan(sweep())[0].levels[1].seed);
  other.workload.seed = 6;
  EXPECT_NE(make_plan(other)[0].levels[0].seed, make_plan(sweep())[0].levels[1].seed);
}

TEST(PlanTest, RepetitionsGoThroughAllLevelsAgainWithSeedsOfTheirOwn) {
  auto repeated = sweep();
  repeated.method.repetitions = 3;
  const auto plan = make_plan(repeated);
  const auto once = make_plan(sweep());
  for (std::size_t m = 0; m < plan.size(); ++m) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> order;
    for (const PlannedLevel& level : plan[m].levels) order.emplace_back(level.repetition, level.concurrency);
    EXPECT_THAT(order, ElementsAre(Pair(0, 12), Pair(0, 24), Pair(0, 36), Pair(1, 12), Pair(1, 24), Pair(1, 36),
                                   Pair(2, 12), Pair(2, 24), Pair(2, 36)));
    EXPECT_TRUE(std::equal(once[m].levels.begin(), once[m].levels.end(), plan[m].levels.begin()))
        << "the first repetition is the sweep without repetitions";
  }
  EXPECT_EQ(seeds(plan[0]), seeds(plan[1]));
  const auto of_mode = seeds(plan[0]);
  EXPECT_EQ(std::set(of_mode.begin(), of_mode.end()).size(), 9U);
  EXPECT_EQ(measuring_time(repeated), 3 * measuring_time(sweep()));
}

std::vector<std::string> order_of(const spec::SweepSpec& spec) {
  std::vector<std::string> order;
  for (const PlannedMode& stretch : make_plan(spec)) {
    for (const PlannedLevel& level : stretch.levels) order.push_back(title_of(level, 2));
  }
  return order;
}

TEST(PlanTest, AbbaMeasuresEveryArmAtALevelAndTurnsTheOrderRound) {
  spec::SweepSpec spec = sweep();
  spec.modes.pop_back();
  spec.levels = {12, 24};
  spec.method.repetitions = 2;
  spec.comparison.order = spec::ArmOrder::kAbba;
  EXPECT_THAT(order_of(spec),
              ElementsAre("kv 12 (1/2)", "round_robin 12 (1/2)", "kv 24 (1/2)", "round_robin 24 (1/2)",
                          "round_robin 12 (2/2)", "kv 12 (2/2)", "round_robin 24 (2/2)", "kv 24 (2/2)"));
  spec.method.between_levels = spec::BetweenLevels::kContinue;
  EXPECT_THAT(order_of(spec),
              ElementsAre("kv 12 (1/2)", "kv 24 (1/2)", "round_robin 12 (1/2)", "round_robin 24 (1/2)",
                          "round_robin 12 (2/2)", "round_robin 24 (2/2)", "kv 12 (2/2)", "kv 24 (2/2)"));
}

TEST(PlanTest, ARandomOrderFollowsFromTheSeedAndHasTheSameLevels) {
  spec::SweepSpec spec = sweep();
  spec.method.repetitions = 20;
  spec.comparison.order = spec::ArmOrder::kRandom;
  const std::vector<std::string> order = order_of(spec);
  EXPECT_EQ(order, order_of(spec));
  std::set<spec::RoutingMode> first;
  const std::vector<PlannedMode> plan = make_plan(spec);
  std::set<std::string> all;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (i % 3 == 0) first.insert(*plan[i].mode.mode());
    EXPECT_EQ(plan[i].levels.at(0).seed, plan[i / 3 * 3].levels.at(0).seed) << "the arms of a level are pairs";
    all.insert(title_of(plan[i].levels[0], 20));
  }
  EXPECT_EQ(first.size(), 3U) << "each arm is first at times";
  EXPECT_EQ(all.size(), 3U * 3 * 20);
  spec.workload.seed = 6;
  EXPECT_NE(order, order_of(spec));
}

TEST(PlanTest, NamesALevelAndItsRepetition) {
  const PlannedLevel level{.mode = RoutingMode::kKv, .concurrency = 24, .repetition = 1, .seed = 0};
  EXPECT_EQ(title_of(level, 1), "kv 24");
  EXPECT_EQ(title_of(level, 5), "kv 24 (2/5)");
  auto repeated = sweep();
  EXPECT_EQ(describe_size(repeated), "3 modes x 3 levels");
  repeated.method.repetitions = 5;
  EXPECT_EQ(describe_size(repeated), "3 modes x 3 levels x 5 repetitions");
}

TEST(PlanTest, MeasuringTimeCountsWarmUpAndSnapshots) {
  auto spec = sweep();
  EXPECT_EQ(measuring_time(spec), std::chrono::seconds(9 * 360));
}

}  // namespace
}  // namespace kvist::sweep::plan_test

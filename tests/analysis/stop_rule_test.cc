#include "kvist/analysis/stop_rule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/sample_run.h"

namespace kvist::analysis::stop_rule_test {
namespace {

using spec::RoutingMode;

StopWatch watch(double half_width, std::string metric = "ttft_p50_ms") {
  return {{.metric = std::move(metric), .half_width = half_width}, {RoutingMode::kRoundRobin, RoutingMode::kKv}};
}

void add_round(StopWatch& watch, std::uint32_t repetition, double baseline, double candidate) {
  watch.add(RoutingMode::kRoundRobin, 24, repetition, baseline);
  watch.add(RoutingMode::kKv, 24, repetition, candidate);
}

TEST(StopRule, TheIntervalIsOfThePairsInPercentOfTheBaseline) {
  StopWatch rule = watch(5);
  add_round(rule, 0, 100, 90);
  add_round(rule, 1, 200, 180);
  add_round(rule, 2, 300, 285);
  add_round(rule, 3, 200, 190);
  EXPECT_FALSE(rule.half_width(24).has_value()) << "four rounds may be close to each other by chance";
  add_round(rule, 4, 200, 180);
  // Changes of -10, -20, -15, -10, -20 on a mean of 200: -5, -10, -7.5, -5, -10 %: standard deviation 2.5,
  // t(0.975, 4) = 2.776445.
  EXPECT_NEAR(rule.half_width(24).value(), 2.776445 * 2.5 / std::sqrt(5.0), 1e-5);
  EXPECT_TRUE(rule.is_narrow(24));
  EXPECT_FALSE(rule.is_narrow(36)) << "another level";
}

TEST(StopRule, OnlyRoundsThatEveryArmHasCount) {
  StopWatch rule = watch(5);
  for (std::uint32_t i = 0; i < 4; ++i) add_round(rule, i, 100, 90);
  rule.add(RoutingMode::kRoundRobin, 24, 4, 100);
  EXPECT_EQ(rule.rounds(24), 4U);
  EXPECT_FALSE(rule.is_narrow(24));
  rule.add(RoutingMode::kKv, 24, 4, 90);
  EXPECT_TRUE(rule.is_narrow(24));
}

TEST(StopRule, AFigureThatIsNotKnownIsNeverNarrow) {
  StopWatch rule = watch(5);
  for (std::uint32_t i = 0; i < 5; ++i) add_round(rule, i, 100, 90);
  ASSERT_TRUE(rule.is_narrow(24));
  rule.add(RoutingMode::kRoundRobin, 24, 5, 100);
  rule.add(RoutingMode::kKv, 24, 5, std::nullopt);
  EXPECT_FALSE(rule.is_narrow(24));
}

TEST(StopRule, PercentagesAreComparedInPoints) {
  StopWatch rule = watch(1, "kv_hit_rate_pct");
  add_round(rule, 0, 2, 50);
  add_round(rule, 1, 2, 50.5);
  add_round(rule, 2, 2, 49.5);
  add_round(rule, 3, 2, 50.5);
  add_round(rule, 4, 2, 49.5);
  EXPECT_NEAR(rule.half_width(24).value(), 2.776445 * 0.5 / std::sqrt(5.0), 1e-5);
}

TEST(StopRule, TheFigureOfALevelWithTooManyErrorsIsNotKnown) {
  results::LevelRecord level = sample_level(RoutingMode::kKv, 24, 200);
  const spec::StopRule rule{.metric = "ttft_p50_ms", .half_width = 1};
  EXPECT_NEAR(stop_figure(rule, level, {}).value(), 145, 1e-9);
  for (workload::TurnSample& turn : level.turns) {
    if (turn.turn == 1) turn.outcome = workload::TurnOutcome::kFailed;
  }
  EXPECT_FALSE(stop_figure(rule, level, {}).has_value());
}

}  // namespace
}  // namespace kvist::analysis::stop_rule_test

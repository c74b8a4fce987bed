#include "kvist/planning/level_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kvist/base/student_t.h"
#include "planning/fake_evaluator.h"

namespace kvist::planning::level_judge_test {
namespace {

constexpr auto kMode = spec::RoutingMode::kKv;

TEST(StudentT, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_t_quantile(0.95, 1), 6.3138, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.95, 2), 2.9200, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.7764, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.9875, 11), 2.5931, 1e-3);
  EXPECT_NEAR(student_t_quantile(0.99, 1'000'000), 2.3263, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.05, 2), -2.9200, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.5, 7), 0, 1e-9);
}

TEST(MeanInterval, IsStudentsT) {
  const std::vector<double> samples = {9, 10, 11};
  const MeanInterval interval = mean_interval(samples, 0.95);
  EXPECT_DOUBLE_EQ(interval.mean, 10);
  EXPECT_NEAR(interval.high, 10 + 2.9200 / std::sqrt(3.0), 1e-4);
  EXPECT_NEAR(interval.low, 10 - 2.9200 / std::sqrt(3.0), 1e-4);
}

TEST(MeanInterval, OneSampleHasAnInfiniteInterval) {
  const std::vector<double> samples = {5};
  EXPECT_EQ(mean_interval(samples, 0.95).high, std::numeric_limits<double>::infinity());
}

TEST(JudgeSamples, AFigureThatIsMissingIsNeitherWithinItsLimitNorBeyond) {
  LevelFigures silent;
  silent[Headline::kErrorPct] = 0;
  const Slo slo = {{Headline::kTtftP95, 600}, {Headline::kErrorPct, 5}};
  const Judgement judgement = judge_samples(4, {silent, silent, silent}, slo, 0.95);
  EXPECT_EQ(judgement.verdict, Verdict::kUnknown);
  EXPECT_EQ(judgement.unknown().objective.figure, Headline::kTtftP95);
  EXPECT_EQ(judgement.unknown().seeds_without, 3U);
  EXPECT_FALSE(judgement.holds_on_average());
  EXPECT_FALSE(judgement.lacks_load());
  // One seed that does not have it is enough.
  const LevelFigures good = figures_with(100, 30);
  EXPECT_EQ(judge_samples(4, {good, silent, good}, slo, 0.95).unknown().seeds_without, 1U);
  EXPECT_EQ(judge_samples(4, {good, good, good}, slo, 0.95).verdict, Verdict::kHolds);
}

TEST(JudgeSamples, WhatSurelyBreaksBreaksWhateverIsUnknown) {
  LevelFigures failing;
  failing[Headline::kErrorPct] = 80;
  const Slo slo = {{Headline::kTtftP95, 600}, {Headline::kErrorPct, 5}};
  const Judgement judgement = judge_samples(4, {failing, failing, failing}, slo, 0.95);
  EXPECT_EQ(judgement.verdict, Verdict::kBreaks);
  EXPECT_EQ(judgement.tightest().objective.figure, Headline::kErrorPct);
}

TEST(JudgeSamples, AFigureOfWhichMoreIsBetterHasALeastValue) {
  const Slo slo = {{Headline::kThroughput, 2'000}, {Headline::kGoodPct, 95}};
  const auto judged = [&](double throughput, double good) {
    LevelFigures figures;
    figures[Headline::kThroughput] = throughput;
    figures[Headline::kGoodPct] = good;
    return judge_samples(4, {figures, figures, figures}, slo, 0.95);
  };
  EXPECT_EQ(judged(2'000, 95).verdict, Verdict::kHolds);
  EXPECT_EQ(judged(1'999, 99).verdict, Verdict::kBreaks);
  EXPECT_TRUE(judged(1'999, 99).lacks_load());
  EXPECT_FALSE(judged(1'999, 94).lacks_load());  // fewer users would help, not more
  EXPECT_EQ(judged(1'000, 99).tightest().objective.figure, Headline::kThroughput);
}

TEST(JudgeLevel, AClearLevelNeedsTheFirstLookOnly) {
  const FakeEvaluator evaluator(
      [](const auto&, const auto& level) { return figures_with(scattered(300, 0.05, level), 30); });
  const Slo slo = {{Headline::kTtftP95, 600}};
  const auto judgement = judge_level(evaluator, three_workers(), kMode, 80, slo, {});
  ASSERT_TRUE(judgement);
  EXPECT_EQ(judgement->verdict, Verdict::kHolds);
  EXPECT_EQ(evaluator.questions, 3);
  EXPECT_EQ(judgement->samples.size(), 3);
}

TEST(JudgeLevel, SeedsOfTheSameRequestsHaveNoInterval) {
  const FakeEvaluator evaluator(
      [](const auto&, const auto& level) { return figures_with(scattered(599, 0.001, level), 30); });
  JudgeOptions options;
  options.same_requests = true;
  const auto judgement = judge_level(evaluator, three_workers(), kMode, 80, {{Headline::kTtftP95, 600}}, options);
  ASSERT_TRUE(judgement);
  EXPECT_EQ(judgement->verdict, Verdict::kHolds);
  EXPECT_EQ(evaluator.questions, 3);  // more seeds would not say more
  EXPECT_TRUE(std::isinf(judgement->objectives.front().figure->low));
  EXPECT_TRUE(std::isinf(judgement->objectives.front().figure->high));
}

TEST(JudgeLevel, ALevelAtItsLimitUsesAllSeedsAndStaysUndecided) {
  // Above and below the limit in turn, whatever the seed: no number of seeds can decide it.
  const FakeEvaluator evaluator([](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    for (std::uint32_t i = 0; i < 12; ++i) {
      if (level.seed == level_seed(sweep, 80, i)) return figures_with(i % 2 == 0 ? 590 : 611, 30);
    }
    return figures_with(0, 0);
  });
  const auto judgement = judge_level(evaluator, three_workers(), kMode, 80, {{Headline::kTtftP95, 600}}, {});
  ASSERT_TRUE(judgement);
  EXPECT_EQ(judgement->verdict, Verdict::kUndecided);
  EXPECT_EQ(evaluator.questions, 12);
  EXPECT_FALSE(judgement->holds_on_average());  // the mean is 600.5
}

TEST(JudgeLevel, ConfidenceIsSharedByTheLooks) {
  // A single test at 95 % would accept these three samples; the first of four looks does not.
  const std::vector<LevelFigures> samples = {figures_with(570, 1), figures_with(580, 1), figures_with(590, 1)};
  EXPECT_EQ(judge_samples(1, samples, {{Headline::kTtftP95, 600}}, 0.95).verdict, Verdict::kHolds);
  EXPECT_EQ(judge_samples(1, samples, {{Headline::kTtftP95, 600}}, 1 - 0.05 / 4).verdict, Verdict::kUndecided);
}

TEST(JudgeLevel, AnEvaluatorThatFailsIsTheAnswer) {
  const FakeEvaluator evaluator([](const auto&, const auto&) -> Result<LevelFigures> {
    return fail(ErrorCode::kResourceExhausted, "out of memory");
  });
  const auto judgement = judge_level(evaluator, three_workers(), kMode, 80, {{Headline::kTtftP95, 600}}, {});
  ASSERT_FALSE(judgement);
  EXPECT_EQ(judgement.error().message, "out of memory");
}

TEST(LevelSeed, IsTheSameForEveryDeploymentAndDiffersBetweenLevelsAndRepetitions) {
  spec::SweepSpec sweep = three_workers();
  const std::uint64_t seed = level_seed(sweep, 80, 0);
  EXPECT_NE(seed, level_seed(sweep, 80, 1));
  EXPECT_NE(seed, level_seed(sweep, 81, 0));
  sweep.deployment.workers.resize(7);
  EXPECT_EQ(seed, level_seed(sweep, 80, 0));
  sweep.workload.seed = 2;
  EXPECT_NE(seed, level_seed(sweep, 80, 0));
}

}  // namespace
}  // namespace kvist::planning::level_judge_test

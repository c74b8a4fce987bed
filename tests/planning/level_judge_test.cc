#include "kvist/planning/level_judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

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

const Slo kTtft = {{Headline::kTtftP95, 600}};
const std::vector<double> kEven(10, 1.0);
const std::vector<double> kUneven = {0.6, 1.3, 0.8, 1.0, 0.7, 1.4, 0.9, 1.1, 0.5, 1.2};

/// A level whose TTFT p95 is given; the blocks are in proportion to `factors`.
LevelSample replay_with(double ttft_p95_ms, const std::vector<double>& factors) {
  const double p95 = uneven_replay(1, factors).figures[Headline::kTtftP95].value();
  return uneven_replay(ttft_p95_ms / p95, factors);
}

TEST(JudgeReplays, BlocksDecide) {
  const auto judged = [](double ttft, const std::vector<double>& factors) {
    const LevelSample sample = replay_with(ttft, factors);
    return judge_replays(4, {sample, sample, sample}, kTtft, 0.95);  // seeds that differ in nothing
  };
  EXPECT_EQ(judged(598, kEven).verdict, Verdict::kHolds);
  EXPECT_EQ(judged(602, kEven).verdict, Verdict::kBreaks);
  EXPECT_EQ(judged(598, kUneven).verdict, Verdict::kUndecided);
  EXPECT_EQ(judged(602, kUneven).verdict, Verdict::kUndecided);
  EXPECT_EQ(judged(300, kUneven).verdict, Verdict::kHolds);
  EXPECT_EQ(judged(1'200, kUneven).verdict, Verdict::kBreaks);
  const Judgement judgement = judged(598, kUneven);
  EXPECT_EQ(judgement.objectives.front().blocks, 10U);
  EXPECT_NEAR(judgement.objectives.front().figure->mean, 598, 0.01);
  EXPECT_LT(judgement.objectives.front().figure->low, 570);
  EXPECT_GT(judgement.objectives.front().figure->high, 620);
  EXPECT_FALSE(judgement.lacks_interval());
}

TEST(JudgeReplays, NoShareIsBelowNothingOrAboveAll) {
  LevelSample sample = replay_with(300, kEven);
  sample.blocks->of(Headline::kErrorPct)[3].value = 20;
  sample.figures[Headline::kErrorPct] = 2;
  const MeanInterval errors = *judge_replays(4, {sample}, {{Headline::kErrorPct, 5}}, 0.95).objectives[0].figure;
  EXPECT_EQ(errors.low, 0);
  EXPECT_NEAR(errors.high, 2 + 1.8331 * 2, 0.01);  // one of ten: as uncertain as it is large
}

TEST(JudgeReplays, WithTooFewTurnsTheMeanDecidesWithoutAnInterval) {
  for (const double ttft : {599.0, 601.0}) {
    const LevelSample sample = replay_of({{ttft, ttft}, {ttft}, {ttft}});
    const Judgement judgement = judge_replays(4, {sample, sample}, kTtft, 0.95);
    EXPECT_EQ(judgement.verdict, ttft < 600 ? Verdict::kHolds : Verdict::kBreaks);
    EXPECT_EQ(judgement.objectives.front().blocks, 0U);
    EXPECT_TRUE(std::isinf(judgement.objectives.front().figure->low));
    EXPECT_TRUE(std::isinf(judgement.objectives.front().figure->high));
    EXPECT_TRUE(judgement.lacks_interval());
  }
}

TEST(JudgeReplays, WhatSurelyBreaksNeedsNoOtherInterval) {
  LevelSample sample = replay_with(900, kEven);
  sample.blocks->of(Headline::kErrorPct).clear();
  const Slo slo = {{Headline::kErrorPct, 5}, {Headline::kTtftP95, 600}};
  EXPECT_FALSE(judge_replays(4, {sample}, slo, 0.95).lacks_interval());
  EXPECT_TRUE(judge_replays(4, {sample}, {slo.front()}, 0.95).lacks_interval());
}

TEST(JudgeReplays, AFigureThatIsMissingIsUnknown) {
  LevelSample silent = replay_with(500, kEven);
  silent.figures[Headline::kTtftP95].reset();
  EXPECT_EQ(judge_replays(4, {silent}, kTtft, 0.95).verdict, Verdict::kUnknown);
}

TEST(JudgeLevel, MoreSeedsOfTheSameRequestsSayNoMore) {
  const FakeReplay evaluator([](const auto&, const auto&) { return replay_with(599, kUneven); });
  JudgeOptions options;
  options.same_requests = true;
  const auto judgement = judge_level(evaluator, three_workers(), kMode, 80, kTtft, options);
  ASSERT_TRUE(judgement);
  EXPECT_EQ(judgement->verdict, Verdict::kUndecided);
  EXPECT_EQ(evaluator.questions, 3);
  // One test, so that it has the whole of the error.
  const Judgement once = judge_replays(80, {replay_with(599, kUneven)}, kTtft, options.confidence);
  EXPECT_NEAR(judgement->objectives.front().figure->high, once.objectives.front().figure->high, 1);
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

#include "kvist/planning/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>

#include "kvist/planning/profile_fit.h"
#include "planning/fake_evaluator.h"

namespace kvist::planning::fit_test {
namespace {

using spec::RoutingMode;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

/// A system with three parameters, stored in unused fields of the deployment: TPOT = fixed + users x per_sequence / 3,
/// TTFT grows with the prefill cost. Figures vary by a fraction of a percent with the seed.
LevelFigures system_figures(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
  const spec::StepTimeSpec& t = sweep.deployment.workers.front().step_time;
  const double users = level.concurrency;
  const double tpot = to_milliseconds(t.fixed) + users / 3 * to_milliseconds(t.per_sequence);
  const double ttft = 100 + 4'000 * to_milliseconds(t.per_prefill_token) + users;
  return figures_with(scattered(ttft, 0.003, level), scattered(tpot, 0.003, level));
}

spec::SweepSpec with_times(const spec::SweepSpec& sweep, const std::vector<double>& ms) {
  spec::SweepSpec changed = sweep;
  for (spec::WorkerSpec& worker : changed.deployment.workers) {
    worker.step_time.fixed = from_milliseconds(ms[0]);
    worker.step_time.per_sequence = from_milliseconds(ms[1]);
    worker.step_time.per_prefill_token = from_milliseconds(ms[2]);
  }
  return changed;
}

constexpr double kFixed = 17, kPerSequence = 0.31, kPerPrefillToken = 0.12;

MeasuredFigures measured_at(std::uint32_t users) {
  const spec::SweepSpec truth = with_times(three_workers(), {kFixed, kPerSequence, kPerPrefillToken});
  return {RoutingMode::kKv, users, system_figures(truth, {RoutingMode::kKv, users, 99})};
}

FitProblem sample_problem() {
  FitProblem problem;
  problem.sweep = three_workers();
  problem.parameters = {
      {"fixed", "ms", 21, 1, 100}, {"per_sequence", "ms", 0.07, 0, 5}, {"per_prefill_token", "ms", 0.094, 0.01, 1}};
  problem.apply = with_times;
  for (const std::uint32_t users : {40U, 60U, 80U, 120U}) problem.levels.fitted.push_back(measured_at(users));
  for (const std::uint32_t users : {50U, 100U}) problem.levels.held_out.push_back(measured_at(users));
  return problem;
}

TEST(Fit, RecoversTheCoefficientsThatMadeTheFigures) {
  const FakeEvaluator evaluator([](const auto& sweep, const auto& level) { return system_figures(sweep, level); });
  const auto result = fit(evaluator, sample_problem(), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NEAR(result->parameters[0].value, kFixed, 0.03 * kFixed);
  EXPECT_NEAR(result->parameters[1].value, kPerSequence, 0.05 * kPerSequence);
  EXPECT_NEAR(result->parameters[2].value, kPerPrefillToken, 0.03 * kPerPrefillToken);
  for (const FittedParameter& p : result->parameters) {
    EXPECT_EQ(p.determined(), FittedParameter::Determined::kWell) << p.parameter.name;
  }
  EXPECT_LT(result->objective_after, 0.05 * result->objective_before);
  EXPECT_GT(error_of(*result, Metric::kTpotP50, true).before_pct, 5);
  EXPECT_LT(error_of(*result, Metric::kTpotP50, true).after_pct, 1.5);
  EXPECT_EQ(error_of(*result, Metric::kTpotP50, true).levels, 2U);
  EXPECT_EQ(error_of(*result, Metric::kTpotP50, false).levels, 4U);
}

TEST(Fit, HeldOutLevelsNeverEnterTheObjective) {
  std::mutex mutex;
  std::multiset<std::uint32_t> asked;
  const FakeEvaluator evaluator([&](const auto& sweep, const auto& level) {
    const std::scoped_lock lock(mutex);
    asked.insert(level.concurrency);
    return system_figures(sweep, level);
  });
  FitOptions options;
  options.seeds = 2;
  const auto result = fit(evaluator, sample_problem(), options);
  ASSERT_TRUE(result);
  // Once before and once after, two seeds each; the fitted ones in every round.
  EXPECT_EQ(asked.count(50), 4U);
  EXPECT_EQ(asked.count(100), 4U);
  EXPECT_GT(asked.count(40), 20U);

  FitProblem nonsense = sample_problem();
  for (MeasuredFigures& level : nonsense.levels.held_out) level.figures[Metric::kTpotP50] = 1e6;
  const auto same = fit(evaluator, nonsense, options);
  ASSERT_TRUE(same);
  for (std::size_t i = 0; i < result->parameters.size(); ++i) {
    EXPECT_EQ(same->parameters[i].value, result->parameters[i].value);
  }
}

TEST(Fit, StaysWithinTheBoundsAndReportsThem) {
  const FakeEvaluator evaluator([](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    EXPECT_GE(sweep.deployment.workers.front().step_time.fixed, from_milliseconds(19));
    return system_figures(sweep, level);
  });
  FitProblem problem = sample_problem();
  problem.parameters[0].low = 19;  // the truth is 17
  const auto result = fit(evaluator, problem, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->parameters[0].value, 19);
  EXPECT_TRUE(result->parameters[0].at_bound);
  EXPECT_FALSE(result->parameters[2].at_bound);
}

TEST(Fit, ReportsUndeterminedParameters) {
  const FakeEvaluator evaluator([](const auto& sweep, const auto& level) {
    LevelFigures figures = system_figures(sweep, level);
    for (const Metric metric : {Metric::kTtftP50, Metric::kTtftP95, Metric::kLatencyP50, Metric::kLatencyP95}) {
      figures[metric].reset();
    }
    return figures;
  });
  FitProblem problem = sample_problem();
  for (MeasuredFigures& level : problem.levels.fitted) {
    for (const Metric metric : {Metric::kTtftP50, Metric::kTtftP95, Metric::kLatencyP50, Metric::kLatencyP95}) {
      level.figures[metric].reset();
    }
  }
  FitOptions options;
  options.scan_points = 0;
  const auto result = fit(evaluator, problem, options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->parameters[0].determined(), FittedParameter::Determined::kWell);
  EXPECT_EQ(result->parameters[2].determined(), FittedParameter::Determined::kNot);
  EXPECT_EQ(result->parameters[2].value, 0.094);
}

TEST(Fit, FindsAMechanismThatDoesNotActWhereItStarts) {
  // A floor below the rest of the step has no local slope: only a wider search finds it.
  const FakeEvaluator evaluator([](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    const spec::StepTimeSpec& t = sweep.deployment.workers.front().step_time;
    const double tpot = std::max(to_milliseconds(t.fixed) + level.concurrency * 0.05,
                                 level.concurrency > 70 ? to_milliseconds(t.per_sequence) : 0);
    return figures_with(scattered(300, 0.003, level), scattered(tpot, 0.003, level));
  });
  FitProblem problem = sample_problem();
  const spec::SweepSpec truth = with_times(three_workers(), {17, 45, 0.1});
  for (MeasuredFigures& level : problem.levels.fitted) {
    level.figures = evaluator.evaluate(truth, {RoutingMode::kKv, level.users, 99})->figures;
  }
  problem.parameters = {
      {"fixed", "ms", 20, 1, 100}, {"floor", "ms", 24, 0, 100}, {"per_prefill_token", "ms", 0.1, 0, 1}};
  const auto result = fit(evaluator, problem, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NEAR(result->parameters[0].value, 17, 0.5);
  EXPECT_NEAR(result->parameters[1].value, 45, 1);
}

TEST(Fit, DoesNotDependOnTheNumberOfThreads) {
  const FakeEvaluator evaluator([](const auto& sweep, const auto& level) { return system_figures(sweep, level); });
  FitOptions one;
  one.threads = 1;
  FitOptions many;
  many.threads = 6;
  const auto a = fit(evaluator, sample_problem(), one);
  const auto b = fit(evaluator, sample_problem(), many);
  ASSERT_TRUE(a && b);
  for (std::size_t i = 0; i < a->parameters.size(); ++i) EXPECT_EQ(a->parameters[i].value, b->parameters[i].value);
}

TEST(Fit, RefusesProblemsWithoutAnAnswer) {
  const FakeEvaluator evaluator([](const auto& sweep, const auto& level) { return system_figures(sweep, level); });
  const auto error_of_problem = [&](auto change) {
    FitProblem problem = sample_problem();
    change(problem);
    const auto result = fit(evaluator, problem, {});
    return result ? "no error" : result.error().message;
  };
  EXPECT_THAT(error_of_problem([](FitProblem& p) { p.parameters.clear(); }), HasSubstr("no coefficient to fit"));
  EXPECT_THAT(error_of_problem([](FitProblem& p) { p.parameters[1] = p.parameters[0]; }),
              HasSubstr("coefficient fixed is named twice"));
  EXPECT_THAT(error_of_problem([](FitProblem& p) { p.parameters[0].start = 200; }),
              HasSubstr("coefficient fixed starts at 200, outside of 1 to 100"));
  EXPECT_THAT(error_of_problem([](FitProblem& p) {
                p.levels.fitted.resize(1);
                for (const Metric metric : kMetrics) p.levels.fitted[0].figures[metric].reset();
                p.levels.fitted[0].figures[Metric::kTpotP50] = 30;
              }),
              HasSubstr("1 measured figures cannot determine 3 coefficients"));
}

std::vector<std::uint32_t> users_of(const std::vector<MeasuredFigures>& levels) {
  std::vector<std::uint32_t> users;
  for (const MeasuredFigures& level : levels) users.push_back(level.users);
  return users;
}

TEST(SplitLevels, TakesTheLevelsNamedAndRefusesUnknownOrSharedOnes) {
  const Measurements measured{
      .source = "x", .sweep = {}, .levels = {measured_at(40), measured_at(50), measured_at(60)}};
  const auto split = split_levels(measured, {}, {50});
  ASSERT_TRUE(split);
  EXPECT_THAT(users_of(split->fitted), UnorderedElementsAre(40, 60));
  EXPECT_THAT(users_of(split->held_out), UnorderedElementsAre(50));
  EXPECT_THAT(users_of(split_levels(measured, {40}, {50})->fitted), UnorderedElementsAre(40));
  EXPECT_THAT(split_levels(measured, {45}, {}).error().message,
              HasSubstr("--fit-levels: x has no level 45; it has 40, 50, 60"));
  EXPECT_THAT(split_levels(measured, {}, {1}).error().message, HasSubstr("--hold-out: x has no level 1"));
  EXPECT_THAT(split_levels(measured, {40, 50}, {50}).error().message, HasSubstr("level 50 is fitted to as well"));
  EXPECT_THAT(split_levels(measured, {}, {40, 50, 60}).error().message, HasSubstr("no level is left"));
}

}  // namespace
}  // namespace kvist::planning::fit_test

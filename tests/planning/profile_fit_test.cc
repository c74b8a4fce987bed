#include "kvist/planning/profile_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/base/yaml.h"
#include "planning/fake_evaluator.h"

namespace kvist::planning::profile_fit_test {
namespace {

using spec::RoutingMode;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// One worker of a shipped profile, and a method short enough for a test.
spec::SweepSpec one_h200() {
  spec::SweepSpec sweep;
  sweep.name = "small";
  spec::WorkerSpec worker;
  worker.profile.emplace();
  worker.profile->engine = "trtllm";
  worker.open.kv_blocks = true;
  worker.max_batch_size = 16;
  sweep.deployment.workers = {worker};
  sweep.modes = {RoutingMode::kRoundRobin};
  sweep.workload.starter_tokens_min = 400;
  sweep.workload.starter_tokens_max = 600;
  sweep.workload.max_tokens = 128;
  sweep.deployment.workers[0].output_length = {.mean_tokens = 80, .standard_deviation_tokens = 10};
  sweep.method.warmup = std::chrono::seconds(10);
  sweep.method.snapshots = 2;
  sweep.method.snapshot_interval = std::chrono::seconds(20);
  sweep.method.window = std::chrono::seconds(20);
  return sweep;
}

FitSplit simulated_levels(const spec::SweepSpec& truth, const std::vector<std::uint32_t>& users) {
  FitSplit split;
  for (const std::uint32_t level : users) {
    const auto sample = SimulatedEvaluator().evaluate(truth, {RoutingMode::kRoundRobin, level, 4'711 + level});
    EXPECT_TRUE(sample) << sample.error().message;
    (level == users.back() ? split.held_out : split.fitted)
        .push_back({RoutingMode::kRoundRobin, level, sample->figures});
  }
  return split;
}

TEST(ProfileFit, RecoversCoefficientsFromSimulatedFiguresAndWritesThemWithTheirOrigin) {
  spec::SweepSpec truth = one_h200();
  truth.deployment.workers[0].profile->set = {{"launch.fixed", 8.0}, {"intake.fixed", 90.0}};
  const FitSplit levels = simulated_levels(truth, {4, 8, 12, 6});
  const auto problem = profile_problem(one_h200(), {"launch.fixed", "intake.fixed"}, levels);
  ASSERT_TRUE(problem) << problem.error().message;
  const auto result = fit(SimulatedEvaluator(), *problem, {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_NEAR(result->parameters[0].value, 8, 0.5);
  EXPECT_NEAR(result->parameters[1].value, 90, 10);
  EXPECT_LT(error_of(*result, Metric::kTpotP50, true).after_pct, 2);

  const auto coefficients = fitted_coefficients(*problem, *result, "small.json");
  ASSERT_TRUE(coefficients) << coefficients.error().message;
  const auto read = perfmodel::Coefficients::parse(coefficients->to_yaml(), "written");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->find("launch.fixed")->origin.kind, perfmodel::OriginKind::kFitted);
  EXPECT_THAT(read->find("launch.fixed")->origin.text, HasSubstr("small.json, levels 4 8 12; held out 6"));
  EXPECT_NEAR(*read->get("launch.fixed"), result->parameters[0].value, 1e-9);

  const std::string text = fit_text(*problem, *result, "small.json");
  EXPECT_THAT(text, AllOf(HasSubstr("3 levels fitted, 1 held out"), HasSubstr("launch.fixed"), HasSubstr("TPOT p50")));
  const auto json = YamlNode::parse(fit_json(*problem, *result, "small.json"), "fit");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->get("coefficients")->elements()->size(), 2U);
  EXPECT_EQ(json->get("levels")->elements()->size(), 4U);
}

TEST(ProfileFit, AProfilesOwnFreeCoefficientsAreTheDefault) {
  const auto problem = profile_problem(one_h200(), {}, {});
  ASSERT_TRUE(problem);
  EXPECT_FALSE(problem->parameters.empty());
  for (const FreeParameter& p : problem->parameters) {
    EXPECT_LE(p.low, p.start) << p.name;
    EXPECT_GE(p.high, p.start) << p.name;
  }
}

TEST(ProfileFit, ErrorsNameTheProblem) {
  const auto error_of_names = [](const std::vector<std::string>& names) {
    const auto problem = profile_problem(one_h200(), names, {});
    return problem ? "no error" : problem.error().message;
  };
  EXPECT_THAT(error_of_names({"launch.fixd"}), HasSubstr("no coefficient \"launch.fixd\"; it has:"));
  EXPECT_THAT(error_of_names({"graphs.padding"}), HasSubstr("graphs.padding is a switch"));
  spec::SweepSpec plain = one_h200();
  plain.deployment.workers[0].profile.reset();
  EXPECT_THAT(profile_problem(plain, {}, {}).error().message, HasSubstr("has no profile"));
  EXPECT_THAT(with_engine(plain, "trtllm").error().message, HasSubstr("has no profile"));
  EXPECT_THAT(with_engine(one_h200(), "tensorrt").error().message, HasSubstr("tensorrt"));
  EXPECT_EQ(with_engine(one_h200(), "vllm")->deployment.workers[0].profile->engine, "vllm");
}

TEST(ReferenceFigures, ThePublishedKvModeIsDynamosRouter) {
  spec::SweepSpec sweep = one_h200();
  sweep.modes = {RoutingMode::kRoundRobin, RoutingMode::kDynamo};
  const std::string path = std::string(KVIST_SOURCE_DIR) + "/data/reference/trtllm-3xh200-rr-vs-kv-40-120.json";
  const auto measured = load_reference_figures(path, sweep);
  ASSERT_TRUE(measured) << measured.error().message;
  ASSERT_EQ(measured->levels.size(), 18U);
  EXPECT_EQ(measured->levels[0].users, 40U);
  EXPECT_EQ(measured->levels[1].mode, RoutingMode::kDynamo);
  EXPECT_EQ(measured->levels[1].figures[Metric::kTtftP95], 370.9);
  EXPECT_EQ(measured->levels[0].figures[Metric::kThroughput], 1591.052529);

  sweep.modes = {RoutingMode::kKv};
  EXPECT_THAT(*load_reference_figures(path, sweep),
              testing::Field(&Measurements::levels, Each(testing::Field(&MeasuredFigures::mode, RoutingMode::kKv))));
  sweep.modes = {RoutingMode::kRandom};
  EXPECT_THAT(load_reference_figures(path, sweep).error().message, HasSubstr("no measured level in a mode"));
}

}  // namespace
}  // namespace kvist::planning::profile_fit_test

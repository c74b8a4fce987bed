#include "kvist/planning/capacity_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/base/yaml.h"
#include "planning/fake_evaluator.h"

namespace kvist::planning::capacity_report_test {
namespace {

using spec::RoutingMode;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// KV routing holds 96 users, 192 again; round-robin 48.
CapacityPlan sample_plan() {
  const FakeEvaluator evaluator([](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    const double batch = level.concurrency / static_cast<double>(sweep.deployment.workers.size());
    const double limit = level.mode == RoutingMode::kKv ? 32 : 16;
    LevelFigures figures = figures_with(300, batch > limit && (batch < 63.5 || limit < 32 || batch > 65) ? 45 : 31);
    figures[Metric::kThroughput] = 20 * level.concurrency;
    return figures;
  });
  CapacityPlan plan;
  plan.sweep = three_workers();
  plan.slo = with_error_limit(*parse_slo("tpot_p95=40ms"), 5);
  plan.capacities = *find_capacities(evaluator, plan.sweep, plan.sweep.modes, plan.slo, {});
  plan.needed.push_back(*find_workers(evaluator, plan.sweep, RoutingMode::kKv, 320, plan.slo, {}));
  const Feasibility all_but_double_batch = [](const spec::SweepSpec& sweep) -> Result<void> {
    if (sweep.deployment.workers.front().max_batch_size <= 64) return {};
    return fail(ErrorCode::kResourceExhausted, "no room <for> that");
  };
  plan.knobs.push_back(*measure_knobs(evaluator, all_but_double_batch, plan.sweep, plan.capacities[1], plan.slo, {}));
  return plan;
}

TEST(PlanText, HasTheAnswersAndTheRemarkOnWhatHoldsAgain) {
  const std::string text = plan_text(sample_plan());
  EXPECT_THAT(text, HasSubstr("3 workers, 3 GPUs, 192 batch slots; within TPOT p95 <= 40 ms, errors <= 5 %"));
  EXPECT_THAT(text, HasSubstr("Simulated, not measured."));
  EXPECT_THAT(text, testing::ContainsRegex("round_robin +48 +48 - 48 +16.0 +960 +TPOT p95 <= 40 ms"));
  EXPECT_THAT(text, testing::ContainsRegex("kv +96 +96 - 96 +32.0 +1920 +TPOT p95 <= 40 ms"));
  EXPECT_THAT(text, HasSubstr("kv: the SLO breaks above 96 users and holds again at 192 and 195 users."));
  EXPECT_THAT(text, testing::ContainsRegex("kv +320 +10 +10 - 10 +10 +TPOT p95 <= 40 ms"));
  EXPECT_THAT(text, HasSubstr("kv: 5 workers hold 320 users too, but some number between them and 10 does not."));
  EXPECT_THAT(text, HasSubstr("from 96 users (kv routing, 3 GPUs)"));
  EXPECT_THAT(text, testing::ContainsRegex("batch size +64 +128 .*no room <for> that"));
}

TEST(PlanJson, IsReadableAndHoldsEveryLevel) {
  const CapacityPlan plan = sample_plan();
  const auto json = YamlNode::parse(plan_json(plan), "plan");  // JSON is YAML
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(*json->get("slo")->as_string(), "tpot_p95=40ms,error=5%");
  const auto capacities = *json->get("capacities")->elements();
  ASSERT_EQ(capacities.size(), 2U);
  EXPECT_EQ(*capacities[1].get("users")->as_int(0, 1'000), 96);
  EXPECT_EQ(*capacities[1].get("limited_by")->get("figure")->as_string(), "tpot_p95_ms");
  EXPECT_EQ(capacities[1].get("levels")->elements()->size(), plan.capacities[1].levels.size());
  EXPECT_EQ(*json->get("workers_needed")->elements()->at(0).get("workers")->as_int(0, 1'000), 10);
  EXPECT_EQ(json->get("knobs")->elements()->at(0).get("changes")->elements()->size(), plan.knobs[0].gains.size());
}

TEST(PlanHtml, IsOnePageWithPlotsAndEscapedText) {
  const std::string html = plan_html(sample_plan());
  EXPECT_THAT(html, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("<svg"), HasSubstr("no room &lt;for&gt; that"),
                          HasSubstr("Every level looked at")));
  EXPECT_THAT(html, Not(testing::ContainsRegex("(src|href)=\"http")));
}

TEST(PlanText, IsTheSameTwice) {
  EXPECT_EQ(plan_text(sample_plan()), plan_text(sample_plan()));
}

}  // namespace
}  // namespace kvist::planning::capacity_report_test

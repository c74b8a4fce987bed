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
    figures[Headline::kThroughput] = 20 * level.concurrency;
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
  EXPECT_THAT(text, HasSubstr("3 workers, 3 GPUs, 192 batch slots; within TPOT p95 <= 40 ms, Errors <= 5 %"));
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

TEST(PlanMarkdown, HasTheSectionsOfThePublishedPlan) {
  CapacityPlan plan = sample_plan();
  plan.sweep.deployment.workers[0].max_batch_size = 32;
  const std::string text = plan_markdown(plan);
  std::size_t at = 0;
  for (const char* heading :
       {"# Benchmark Sweep: KV Cache Routing vs Round-Robin\n", "## Objective\n", "## Architecture Change\n",
        "## What We're Measuring\n", "## Concurrency Levels\n", "## Deployment Details\n", "## What Needs to Change\n",
        "## What NOT to Change\n", "## Things to Monitor\n", "## Expected Outcome\n"}) {
    const std::size_t found = text.find(heading);
    ASSERT_NE(found, std::string::npos) << heading;
    EXPECT_GE(found, at) << heading;
    at = found;
  }
  EXPECT_THAT(text, HasSubstr("- 40 (13.3 per worker): within the limits with Round-robin, KV cache-aware\n"));
  EXPECT_THAT(
      text, HasSubstr("- 80 (26.7 per worker): within the limits with KV cache-aware; beyond them with Round-robin\n"));
  EXPECT_THAT(text, HasSubstr("KV cache-aware: from 3 workers to 10 (10 GPUs) for 320 users"));
  EXPECT_THAT(text, HasSubstr("- max_batch_size: 32\n"));
  EXPECT_THAT(text, HasSubstr("- max_batch_size: 64\n"));  // of two kinds of workers both
  EXPECT_THAT(text, HasSubstr("- **Routing:** KV cache-aware, with the most users within the limits (96)"));
  EXPECT_THAT(text, HasSubstr("- **TPOT p95**: with Round-robin it is the first to reach its limit, above 48 users"));
  EXPECT_THAT(text, testing::ContainsRegex("\\| kv \\| 96 \\| 96 - 96 \\|"));
  plan.knobs.clear();
  EXPECT_THAT(text, HasSubstr("each change was tried alone"));
  plan.needed.clear();
  plan.capacities.pop_back();
  plan.knobs.clear();
  EXPECT_THAT(plan_markdown(plan), AllOf(HasSubstr("Nothing was asked"), HasSubstr("no change of one was tried"),
                                         Not(HasSubstr("tried alone")), Not(HasSubstr("Architecture Change"))));
}

TEST(PlanHtml, IsOnePageWithPlotsAndEscapedText) {
  const std::string html = plan_html(sample_plan());
  EXPECT_THAT(html, AllOf(HasSubstr("<!DOCTYPE html>"), HasSubstr("<svg"), HasSubstr("no room &lt;for&gt; that"),
                          HasSubstr("Every level looked at")));
  EXPECT_THAT(html, Not(testing::ContainsRegex("(src|href)=\"http")));
}

TEST(PlanText, SaysWhereAndWhyASearchEndedWithoutAnAnswer) {
  const FakeEvaluator evaluator([](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    LevelFigures figures = figures_with(300, 31);
    // From 100 users on, the second seed has no ITL.
    if (level.concurrency < 100 || level.seed != level_seed(sweep, level.concurrency, 1)) {
      figures[Headline::kItlP99] = 40;
    }
    return figures;
  });
  CapacityPlan plan;
  plan.sweep = three_workers();
  plan.slo = *parse_slo("itl_p99=50ms");
  plan.capacities = *find_capacities(evaluator, plan.sweep, {RoutingMode::kKv}, plan.slo, {});
  plan.needed.push_back(*find_workers(evaluator, plan.sweep, RoutingMode::kKv, 320, plan.slo, {}));
  constexpr const char* kWhy = "ITL p99 was not measured at 192 users (1 of 3 seeds have none), so that nobody can say";
  EXPECT_THAT(gaps_of(plan), AllOf(HasSubstr(std::string("kv: ") + kWhy), HasSubstr("at 5 workers (1 of 3")));
  EXPECT_THAT(plan_text(plan), AllOf(HasSubstr(kWhy), testing::ContainsRegex("kv +unknown +- +- +- +-")));
  EXPECT_THAT(plan_html(plan), HasSubstr(kWhy));
  const auto json = YamlNode::parse(plan_json(plan), "plan");
  ASSERT_TRUE(json) << json.error().message;
  const auto capacity = json->get("capacities")->elements()->at(0);
  EXPECT_TRUE(capacity.get("users")->is_null());
  EXPECT_EQ(*capacity.get("unknown")->get("figure")->as_string(), "itl_p99_ms");
  EXPECT_EQ(*capacity.get("unknown")->get("users")->as_int(0, 1'000), 192);
  EXPECT_EQ(*capacity.get("levels")->elements()->back().get("verdict")->as_string(), "unknown");
  EXPECT_EQ(*json->get("workers_needed")->elements()->at(0).get("unknown")->get("workers")->as_int(0, 99), 5);
  EXPECT_TRUE(gaps_of(sample_plan()).empty());
}

TEST(PlanText, SaysWhoAsksForTooLittle) {
  const FakeEvaluator evaluator([](const auto&, const simulation::LevelPlan& level) {
    LevelFigures figures = figures_with(4.0 * level.concurrency, 31);
    figures[Headline::kThroughput] = 20.0 * level.concurrency;
    return figures;
  });
  CapacityPlan plan;
  plan.sweep = three_workers();
  plan.slo = *parse_slo("ttft_p95=600ms,output_tokens_per_s=2000");
  plan.capacities = *find_capacities(evaluator, plan.sweep, {RoutingMode::kKv}, plan.slo, {});
  EXPECT_THAT(plan_text(plan), HasSubstr("kv: 96 users ask for too little to reach Output tokens/s >= 2000."));
}

TEST(PlanText, SaysWhatALevelOfOpenArrivalsIs) {
  CapacityPlan plan = sample_plan();
  EXPECT_THAT(plan_text(plan), Not(HasSubstr("per minute")));
  plan.sweep.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  EXPECT_THAT(plan_text(plan), HasSubstr("Users are conversation starts per minute"));
}

/// A replay of which TTFT p95 grows by 4 ms per user and worker's share: 150 users at 601 ms. Its blocks of time differ
/// by up to `unevenness`, as a share. Without blocks there is no interval.
CapacityPlan plan_of_replay(double unevenness, bool has_blocks = true) {
  std::vector<double> factors;
  for (int i = 0; i < 10; ++i) factors.push_back(1 + unevenness * (i * 7 % 10 - 4.5) / 4.5);
  const double p95 = uneven_replay(1, factors).figures[Headline::kTtftP95].value();
  const FakeReplay evaluator([&](const spec::SweepSpec& sweep, const simulation::LevelPlan& level) {
    const double ttft = 12.0 * level.concurrency / static_cast<double>(sweep.deployment.workers.size());
    LevelSample sample = uneven_replay(ttft / p95, factors);
    if (!has_blocks) sample.blocks.reset();
    return sample;
  });
  CapacityOptions options;
  options.judge.same_requests = true;
  CapacityPlan plan;
  plan.sweep = three_workers();
  plan.same_requests = true;
  plan.slo = *parse_slo("ttft_p95=601ms");
  plan.capacities = *find_capacities(evaluator, plan.sweep, {RoutingMode::kKv}, plan.slo, options);
  plan.needed.push_back(*find_workers(evaluator, plan.sweep, RoutingMode::kKv, 320, plan.slo, options));
  const auto all = [](const spec::SweepSpec&) -> Result<void> { return {}; };
  plan.knobs.push_back(*measure_knobs(evaluator, all, plan.sweep, plan.capacities[0], plan.slo, options));
  return plan;
}

TEST(PlanText, IntervalsOfAReplayAreOverBlocksOfTime) {
  const CapacityPlan plan = plan_of_replay(0.3);
  const std::string text = plan_text(plan);
  EXPECT_THAT(text, HasSubstr("every seed of a level replays the same requests, so that intervals are by Student's t "
                              "over 10 blocks of time"));
  EXPECT_THAT(text, testing::ContainsRegex("kv +150 +133 - 161 +50.0 "));
  EXPECT_THAT(text, testing::ContainsRegex("kv +320 +7 +6 - 8 +7 "));
  EXPECT_THAT(text, testing::ContainsRegex("workers +3 +4 +200 +[+]50 +[+]16 to [+]82 "));
  EXPECT_THAT(text, Not(HasSubstr("none")));
  EXPECT_THAT(plan_html(plan), AllOf(HasSubstr("over 10 blocks of time"), HasSubstr("holds on average")));
  EXPECT_THAT(plan_markdown(plan), AllOf(HasSubstr("over 10 blocks of time"), HasSubstr("95 % confidence"),
                                         HasSubstr("- **workers:** 4 in place of 3: +50 users (interval: +")));
  const auto json = YamlNode::parse(plan_json(plan), "plan");
  ASSERT_TRUE(json) << json.error().message;
  const auto capacity = json->get("capacities")->elements()->at(0);
  EXPECT_EQ(*capacity.get("surely")->as_int(0, 999), plan.capacities[0].surely);
  const auto limit = capacity.get("levels")->elements()->at(0).get("limits")->get("ttft_p95_ms");
  EXPECT_EQ(*limit->get("blocks")->as_int(0, 99), 10);
  EXPECT_LT(*limit->get("low")->as_double(0, 1e6), *limit->get("mean")->as_double(0, 1e6));
}

TEST(PlanText, AnEvenReplayHasANarrowInterval) {
  EXPECT_THAT(plan_text(plan_of_replay(0)), testing::ContainsRegex("kv +150 +150 - 150 +50.0 "));
}

TEST(PlanText, AReplayOfTooFewTurnsHasNoInterval) {
  const CapacityPlan plan = plan_of_replay(0.3, false);
  const std::string text = plan_text(plan);
  EXPECT_THAT(text, Not(HasSubstr("Student's t")));
  EXPECT_THAT(text, AllOf(HasSubstr("levels are judged by their means"), HasSubstr("kv: no interval, because")));
  EXPECT_THAT(text, testing::ContainsRegex("kv +150 +none +50.0 "));
  EXPECT_THAT(text, testing::ContainsRegex("kv +320 +7 +none +7 "));
  EXPECT_THAT(text, Not(testing::ContainsRegex("[+-][0-9]+ to [+-][0-9]+")));
  EXPECT_THAT(plan_html(plan), HasSubstr("holds by its means"));
  EXPECT_THAT(plan_markdown(plan), AllOf(Not(HasSubstr("95 % confidence")), Not(HasSubstr("in place of"))));
  const auto json = YamlNode::parse(plan_json(plan), "plan");
  ASSERT_TRUE(json) << json.error().message;
  const auto capacity = json->get("capacities")->elements()->at(0);
  EXPECT_EQ(*capacity.get("users")->as_int(0, 999), 150);
  EXPECT_TRUE(capacity.get("surely")->is_null());
  EXPECT_TRUE(capacity.get("at_most")->is_null());
  EXPECT_TRUE(json->get("workers_needed")->elements()->at(0).get("surely_needs")->is_null());
  EXPECT_TRUE(json->get("knobs")->elements()->at(0).get("changes")->elements()->at(0).get("gain_low")->is_null());
}

TEST(PlanText, IsTheSameTwice) {
  EXPECT_EQ(plan_text(sample_plan()), plan_text(sample_plan()));
}

}  // namespace
}  // namespace kvist::planning::capacity_report_test

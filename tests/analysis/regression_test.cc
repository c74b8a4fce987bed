#include "kvist/analysis/regression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/sample_run.h"
#include "kvist/report/regression_text.h"

namespace kvist::analysis::regression_test {
namespace {

using ::testing::HasSubstr;

std::vector<JudgedLevel> level_with(Estimate ttft_p50, Estimate throughput = {.value = 100, .interval = {}}) {
  JudgedLevel level{.name = "kv at 24", .estimates = std::vector<Estimate>(judged_figures().size())};
  level.estimates[0] = ttft_p50;
  level.estimates[5] = throughput;
  return {level};
}

RegressionVerdict verdict(const Estimate& before, const Estimate& after) {
  return compare_runs(level_with(before), level_with(after), {}).front().verdict;
}

TEST(Regression, AChangeCountsBeyondToleranceAndIntervals) {
  EXPECT_EQ(verdict({10, {{9, 11}}}, {12, {{11.5, 13}}}), RegressionVerdict::kWorse);
  EXPECT_EQ(verdict({10, {{9, 11}}}, {12, {{10.5, 13}}}), RegressionVerdict::kFine);          // overlapping intervals
  EXPECT_EQ(verdict({10, {{9.9, 10.1}}}, {10.4, {{10.3, 10.5}}}), RegressionVerdict::kFine);  // within 5 %
  EXPECT_EQ(verdict({10, {{9, 11}}}, {8, {{7, 8.5}}}), RegressionVerdict::kBetter);
  EXPECT_EQ(verdict({10, {}}, {11, {}}), RegressionVerdict::kWorse);  // without intervals the tolerance decides
  EXPECT_EQ(verdict({10, {}}, {}), RegressionVerdict::kUnknown);      // a missing figure is never green
  EXPECT_EQ(verdict({}, {10, {}}), RegressionVerdict::kFine);
}

TEST(Regression, MoreThroughputIsBetter) {
  const auto results = compare_runs(level_with({10, {}}, {100, {}}), level_with({10, {}}, {80, {}}), {});
  EXPECT_EQ(results[5].verdict, RegressionVerdict::kWorse);
  EXPECT_NEAR(*results[5].change, -20, 1e-9);
}

TEST(Regression, AMissingLevelErrorsAndABusyClientAreUnknown) {
  const std::vector<JudgedLevel> before = level_with({10, {}});
  EXPECT_EQ(compare_runs(before, {}, {})[0].verdict, RegressionVerdict::kUnknown);
  std::vector<JudgedLevel> after = before;
  after[0].client_degraded = true;
  EXPECT_THAT(compare_runs(before, after, {})[0].reason, HasSubstr("too busy"));
  after = before;
  after[0].excluded = true;
  EXPECT_EQ(compare_runs(before, after, {})[0].reason, "too many errors");
  EXPECT_EQ(compare_runs(before, after, {})[1].verdict, RegressionVerdict::kFine);  // that figure was never known
}

TEST(Regression, ARunAgainstItselfIsFine) {
  const std::vector<JudgedLevel> levels = judged_levels(RunAnalysis(sample_run(), sample_sweep()));
  EXPECT_EQ(levels.size(), 4U);
  const auto results = compare_runs(levels, levels, {.figures_pct = 0, .error_points = 0});
  for (const FigureRegression& result : results) EXPECT_EQ(result.verdict, RegressionVerdict::kFine);
  EXPECT_THAT(report::regression_text(results, {}), HasSubstr("0 worse by more than 5%"));
}

TEST(Regression, ErrorsHaveATighterTolerance) {
  const auto with_errors = [](double pct) {
    std::vector<JudgedLevel> level = level_with({10, {}});
    level[0].estimates[7] = {.value = pct, .interval = {}};
    return level;
  };
  ASSERT_EQ(judged_figures()[7], Headline::kErrorPct);
  EXPECT_EQ(compare_runs(with_errors(0), with_errors(2), {})[7].verdict, RegressionVerdict::kWorse);
  EXPECT_EQ(compare_runs(with_errors(0), with_errors(0.4), {})[7].verdict, RegressionVerdict::kFine);
  EXPECT_EQ(compare_runs(with_errors(0), with_errors(2), {.error_points = 3})[7].verdict, RegressionVerdict::kFine);
  EXPECT_EQ(compare_runs(with_errors(3), with_errors(1), {})[7].verdict, RegressionVerdict::kBetter);
}

TEST(Regression, LoadsAreNamedByWhatTheySentAndHow) {
  const auto name = [](const std::string& fields) {
    const std::string text = "{" + fields + R"("figures": {}, "client": {"verdict": "ok"}})";
    return judged_levels_of_summary(text, "s.json").value().front().name;
  };
  EXPECT_EQ(name(R"("dataset": "synthetic", "concurrency": 32, "rate_per_s": null,)"), "synthetic, 32 at once");
  EXPECT_EQ(name(R"("dataset": "chats.jsonl", "concurrency": null, "rate_per_s": 2.5, "arrivals": {"law": "gamma"},)"),
            "chats.jsonl, 2.5/s gamma");
  EXPECT_EQ(name(R"("dataset": "trace.jsonl", "concurrency": null, "rate_per_s": null,)"),
            "trace.jsonl at its own instants");
}

TEST(Regression, LoadsThatHaveNothingInCommonAreRefused) {
  std::vector<JudgedLevel> before = level_with({10, {}});
  std::vector<JudgedLevel> after = before;
  EXPECT_TRUE(check_comparable(before, "old", after, "new").has_value());
  after[0].name = "kv at 48";
  EXPECT_THAT(check_comparable(before, "old", after, "new").error().message,
              HasSubstr("nothing to compare: old has kv at 24, new has kv at 48"));
  after.push_back(before[0]);
  EXPECT_TRUE(check_comparable(before, "old", after, "new").has_value());
}

TEST(Regression, ReadsTheSummaryOfALoad) {
  const auto levels = judged_levels_of_summary(
      R"({"figures": {"ttft_p50_ms": {"value": 10, "low": 9, "high": 11}, "output_tokens_per_s": {"value": 5, "low": null, "high": null}}, "client": {"verdict": "degraded"}})",
      "s.json");
  ASSERT_TRUE(levels.has_value()) << levels.error().message;
  EXPECT_TRUE(levels->front().client_degraded);
  EXPECT_EQ(levels->front().estimates[0].interval, (Interval{.low = 9, .high = 11}));
  EXPECT_FALSE(levels->front().estimates[5].interval.has_value());
  EXPECT_THAT(judged_levels_of_summary("{}", "s.json").error().message, HasSubstr("s.json"));
}

TEST(Regression, LoadsOfOneNameThatDidNotSendTheSameAreRefused) {
  const auto levels = [](const std::string& fields) {
    const std::string text =
        R"({"dataset": "synthetic", "concurrency": 8, )" + fields + R"("figures": {}, "client": {"verdict": "valid"}})";
    return judged_levels_of_summary(text, "s.json").value();
  };
  const auto error = [&](const std::string& before, const std::string& after) {
    const Result<void> good = check_comparable(levels(before), "old", levels(after), "new");
    return good ? "no error" : good.error().message;
  };
  const std::string load = R"("workload": "seed: 1\nturns_min: 1\nmax_tokens: 64\n", )";
  EXPECT_EQ(error(load, load), "no error");
  EXPECT_EQ(error(load, R"("workload": "seed: 2\nturns_min: 1\nmax_tokens: 64\n", )"), "no error");
  EXPECT_EQ(error(load, ""), "no error");  // an old summary does not say
  EXPECT_THAT(error(load, R"("workload": "seed: 1\nturns_min: 1\nmax_tokens: 32\n", )"),
              HasSubstr("old and new both have \"synthetic, 8 at once\", but did not send the same: "
                        "\"max_tokens: 64\" before, \"max_tokens: 32\" now"));
  EXPECT_THAT(error(load + R"("dataset_sha256": "ab", )", load + R"("dataset_sha256": "cd", )"), HasSubstr("ab"));
  EXPECT_THAT(error(load, load + R"("prompt_ids": "1-9", )"), HasSubstr("nothing more before, \"prompt_ids: 1-9\""));
  EXPECT_THAT(error(load, load + R"("think_time_s": {"least": 1, "most": 2}, )"), HasSubstr("think time: 1 s to 2 s"));
  const auto mix = [&](const std::string& weight, const std::string& sha) {
    return load + R"("mix": [{"file": "a", "sha256": ")" + sha + R"(", "weight": )" + weight + "}], ";
  };
  EXPECT_EQ(error(mix("2", "x"), mix("2", "x")), "no error");
  EXPECT_THAT(error(mix("2", "x"), mix("3", "x")), HasSubstr("mix: 2 parts of x"));
  EXPECT_THAT(error(mix("2", "x"), mix("2", "y")), HasSubstr("mix: 2 parts of x"));
}

TEST(Regression, SweepsOfOtherWorkloadsAreRefused) {
  spec::SweepSpec sweep = sample_sweep();
  const std::vector<JudgedLevel> before = judged_levels(RunAnalysis(sample_run(), sweep));
  sweep.workload.seed += 1;
  EXPECT_TRUE(check_comparable(before, "old", judged_levels(RunAnalysis(sample_run(), sweep)), "new").has_value());
  sweep.workload.max_tokens += 1;
  EXPECT_THAT(check_comparable(before, "old", judged_levels(RunAnalysis(sample_run(), sweep)), "new").error().message,
              HasSubstr("max_tokens"));
}

}  // namespace
}  // namespace kvist::analysis::regression_test

#include "kvist/analysis/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cmath>
#include <limits>
#include <vector>

#include "analysis/sample_run.h"
#include "kvist/analysis/run_changes.h"
#include "kvist/render/document.h"
#include "kvist/report/comparison_text.h"
#include "kvist/report/report.h"

namespace kvist::analysis::comparison_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Paired, RatiosAreGeometricMeansWithStudentsIntervalOnLogarithms) {
  // ln 0.5, ln 0.8, ln 1 = -0.693147, -0.223144, 0: mean -0.305430, standard deviation 0.353824; t(0.975, 2)
  // = 4.302653.
  const std::vector<double> baseline = {100, 200, 50};
  const std::vector<double> candidate = {50, 160, 50};
  const PairedChange change = paired_ratio(baseline, candidate);
  EXPECT_EQ(change.pairs, 3U);
  EXPECT_NEAR(change.estimate, std::exp(-0.305430), 1e-5);  // the cube root of 0.4
  EXPECT_NEAR(change.low, std::exp(-0.305430 - 4.302653 * 0.353824 / std::sqrt(3.0)), 1e-4);
  EXPECT_NEAR(change.high, std::exp(-0.305430 + 4.302653 * 0.353824 / std::sqrt(3.0)), 1e-4);
  EXPECT_EQ(verdict_of(change, 1, true), PairedVerdict::kEqual);
}

TEST(Paired, DifferencesAreMeansWithStudentsInterval) {
  // 2, 4, 3, 3: mean 3, standard deviation 0.816497; t(0.975, 3) = 3.182446: 3 +- 1.299228.
  const std::vector<double> baseline = {0, 10, 20, 30};
  const std::vector<double> candidate = {2, 14, 23, 33};
  const PairedChange change = paired_difference(baseline, candidate);
  EXPECT_DOUBLE_EQ(change.estimate, 3);
  EXPECT_NEAR(change.low, 1.700772, 1e-5);
  EXPECT_NEAR(change.high, 4.299228, 1e-5);
  EXPECT_EQ(verdict_of(change, 0, false), PairedVerdict::kBetter);
  EXPECT_EQ(verdict_of(change, 0, true), PairedVerdict::kWorse);
}

TEST(Paired, PairingSeesWhatTheSpreadOverSeedsHides) {
  // Seeds differ tenfold, the candidate is 2 or 3 % shorter on each.
  const std::vector<double> baseline = {100, 1'000, 300, 700};
  const std::vector<double> candidate = {98, 970, 294, 679};
  const PairedChange change = paired_ratio(baseline, candidate);
  EXPECT_LT(change.high, 0.99);
  EXPECT_EQ(verdict_of(change, 1, true), PairedVerdict::kBetter);
  EXPECT_EQ(verdict_of(change, 1, false), PairedVerdict::kWorse);
}

TEST(Paired, OnePairLeavesEverythingOpenAndEqualPairsAreEqual) {
  const std::vector<double> one = {10};
  const std::vector<double> half = {5};
  EXPECT_DOUBLE_EQ(paired_ratio(one, half).estimate, 0.5);
  EXPECT_EQ(paired_difference(one, half).high, kInfinity);
  EXPECT_EQ(verdict_of(paired_ratio(one, half), 1, true), PairedVerdict::kOpen);
  const std::vector<double> two = {10, 20};
  const PairedChange same = paired_ratio(two, two);
  EXPECT_EQ(same.low, 1);
  EXPECT_EQ(same.high, 1);
  EXPECT_EQ(verdict_of(same, 1, true), PairedVerdict::kEqual);
}

/// Round-robin and kv at 40 and 50 with three seeds. Every TTFT of kv: 0.8, 0.81, 0.79 of round-robin's at 40, the same
/// at 50.
results::RunRecord seeded_run() {
  results::RunRecord run = sample_run();
  run.levels.clear();
  for (const std::uint32_t concurrency : {40U, 50U}) {
    for (std::uint32_t repetition = 0; repetition < 3; ++repetition) {
      const double base = 200 + 50.0 * repetition;
      const double share = concurrency == 50 ? 1 : 0.8 + (repetition == 1 ? 0.01 : repetition == 2 ? -0.01 : 0);
      for (const auto mode : {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv}) {
        const bool kv = mode == spec::RoutingMode::kKv;
        results::LevelRecord level = sample_level(mode, concurrency, 0);
        for (workload::TurnSample& turn : level.turns) {
          turn.first_token = turn.sent + from_milliseconds(kv ? base * share : base);
        }
        level.repetition = repetition;
        level.seed = 1'000 * concurrency + repetition;
        run.levels.push_back(std::move(level));
      }
    }
  }
  return run;
}

spec::SweepSpec seeded_sweep() {
  spec::SweepSpec sweep = sample_sweep();
  sweep.method.repetitions = 3;
  return sweep;
}

RunComparison compared(const results::RunRecord& run) {
  return compare_modes(RunAnalysis(run, seeded_sweep())).value();
}

TEST(Comparison, PairsRepetitionsBySeed) {
  const RunComparison comparison = compared(seeded_run());
  EXPECT_EQ(comparison.baseline, spec::RoutingMode::kRoundRobin);
  ASSERT_EQ(comparison.levels.size(), 2U);
  const FigureComparison& p50 = *comparison.find(spec::RoutingMode::kKv, 40)->find("ttft_p50_ms");
  EXPECT_EQ(p50.change.pairs, 3U);
  EXPECT_NEAR(p50.change.estimate, std::cbrt(0.8 * 0.81 * 0.79), 1e-5);
  EXPECT_DOUBLE_EQ(*p50.baseline, 250);
  EXPECT_EQ(p50.verdict, PairedVerdict::kBetter);
  EXPECT_EQ(comparison.find(spec::RoutingMode::kKv, 50)->find("ttft_p50_ms")->verdict, PairedVerdict::kEqual);
  const FigureComparison& hits = *comparison.find(spec::RoutingMode::kKv, 50)->find("kv_hit_rate_pct");
  EXPECT_DOUBLE_EQ(hits.change.estimate, 30);  // 90 against 60 %
  EXPECT_EQ(hits.verdict, PairedVerdict::kBetter);
  EXPECT_EQ(comparison.find(spec::RoutingMode::kDynamo, 40), nullptr);
  EXPECT_EQ(comparison.count(spec::RoutingMode::kKv, 0, PairedVerdict::kBetter), 1U);
}

TEST(Comparison, AGainIsOfPairsWhateverRepetitionsOneArmAloneHas) {
  results::RunRecord run = seeded_run();
  std::erase_if(run.levels, [](const results::LevelRecord& level) {
    return level.mode == spec::RoutingMode::kKv && level.repetition == 2;  // interrupted before it
  });
  const RunAnalysis analysis(run, seeded_sweep());
  const Estimate gain = gain_of(analysis.find(spec::RoutingMode::kRoundRobin, 40),
                                analysis.find(spec::RoutingMode::kKv, 40), headline(Headline::kTtftP50));
  EXPECT_NEAR(gain.value.value(), 100 * (1 - (200 * 0.8 + 250 * 0.81) / (200 + 250)), 1e-3);
}

TEST(Comparison, AChangeIsOfPairsWhateverRepetitionsOneRunAloneHas) {
  const results::RunRecord run = seeded_run();
  results::RunRecord longer = run;
  results::LevelRecord fourth = longer.levels.front();  // round-robin at 40
  for (workload::TurnSample& turn : fourth.turns) turn.first_token = turn.sent + from_milliseconds(2'000);
  fourth.repetition = 3;
  fourth.seed = 40'003;
  longer.levels.push_back(std::move(fourth));
  const RunAnalysis before(longer, seeded_sweep());
  const RunAnalysis after(run, seeded_sweep());
  const FigureChange change = change_of(before.find(spec::RoutingMode::kRoundRobin, 40),
                                        after.find(spec::RoutingMode::kKv, 40), headline(Headline::kTtftP50));
  const double expected = 100 * ((160 + 202.5 + 237) / 750 - 1);
  EXPECT_NEAR(change.change.value.value(), expected, 1e-3);
  ASSERT_TRUE(change.change.interval.has_value());
  EXPECT_LT(change.change.interval->low, expected);
  EXPECT_GT(change.change.interval->high, expected);
  EXPECT_NEAR(change.before.value.value(), (750 + 2'000) / 4.0, 1e-3);
}

TEST(Comparison, RepetitionsWithOtherSeedsAreRefused) {
  results::RunRecord run = seeded_run();
  for (results::LevelRecord& level : run.levels) {
    if (level.mode == spec::RoutingMode::kKv) level.seed += 7;
  }
  const RunComparison comparison = compared(run);
  const FigureComparison& p50 = *comparison.find(spec::RoutingMode::kKv, 40)->find("ttft_p50_ms");
  EXPECT_EQ(p50.change.pairs, 0U);
  EXPECT_EQ(p50.verdict, PairedVerdict::kRefused);
  EXPECT_FALSE(p50.baseline.has_value());
  EXPECT_EQ(report::change_cell(kComparedFigures[0], p50), "refused");
  EXPECT_THAT(comparison.find(spec::RoutingMode::kKv, 40)->refused.at(0), HasSubstr("other seeds"));
}

TEST(Comparison, AModeThatFailsAndABaselineThatDoesNotIsWorse) {
  results::RunRecord run = seeded_run();
  for (results::LevelRecord& level : run.levels) {
    const bool fails = level.concurrency == 40 && level.repetition == 1 && level.mode == spec::RoutingMode::kKv;
    for (std::size_t i = 0; fails && i < 5; ++i) level.turns[i].outcome = workload::TurnOutcome::kFailed;
  }
  const RunComparison comparison = compared(run);
  const LevelComparison& level = *comparison.find(spec::RoutingMode::kKv, 40);
  EXPECT_EQ(level.lost_to_errors, 1U);
  EXPECT_EQ(level.find("ttft_p50_ms")->change.pairs, 2U);
  EXPECT_EQ(level.find("ttft_p50_ms")->verdict, PairedVerdict::kWorse);
}

TEST(Comparison, TheBaselineMayBeChosenAndMustHaveBeenMeasured) {
  const RunAnalysis analysis(seeded_run(), seeded_sweep());
  const RunComparison turned = compare_modes(analysis, spec::RoutingMode::kKv).value();
  EXPECT_EQ(turned.modes, std::vector<spec::Arm>{spec::RoutingMode::kRoundRobin});
  EXPECT_EQ(turned.levels[0].find("ttft_p50_ms")->verdict, PairedVerdict::kWorse);
  const auto none = compare_modes(analysis, spec::RoutingMode::kDynamo);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("the baseline dynamo was not measured"));
}

TEST(Comparison, CombinedRunsAreWorseIfOneLevelIs) {
  const RunAnalysis analysis(seeded_run(), seeded_sweep());
  const std::vector<RunComparison> runs = {compare_modes(analysis).value(), compare_modes(analysis).value()};
  EXPECT_EQ(report::combined_verdict(runs, spec::RoutingMode::kKv, 0), PairedVerdict::kBetter);
  EXPECT_EQ(report::combined_verdict(runs, spec::RoutingMode::kRandom, 0), PairedVerdict::kOpen);
  EXPECT_THAT(report::comparisons_text(runs), HasSubstr("better: 2/2/0"));

  simdjson::dom::parser parser;
  const std::string json = report::comparisons_json(runs);
  const simdjson::dom::element root = parser.parse(json);
  EXPECT_EQ(root["runs"].get_array().size(), 2U);
  const simdjson::dom::element first = root["runs"].at(0)["levels"].at(0);
  EXPECT_EQ(first["concurrency"].get_uint64().value(), 40U);
  EXPECT_EQ(first["ttft_p50_ms"]["verdict"].get_string().value(), "better");
  EXPECT_NEAR(first["ttft_p50_ms"]["ratio"].get_double().value(), 0.799958, 1e-5);
  EXPECT_EQ(root["combined"].at(0)["ttft_p50_ms"]["equal"].get_uint64().value(), 2U);

  std::vector<RunComparison> other = runs;
  other.push_back(compare_modes(analysis, spec::RoutingMode::kKv).value());
  EXPECT_EQ(report::combined_verdict(other, spec::RoutingMode::kRoundRobin, 0), PairedVerdict::kWorse);
  EXPECT_TRUE(only(runs[0], {spec::RoutingMode::kDynamo}).levels.empty());
}

TEST(Comparison, IsInTheReportOfASweepWithTwoModesAndRepetitions) {
  const std::string markdown = report::render_markdown(seeded_run(), seeded_sweep());
  EXPECT_THAT(markdown, HasSubstr("## Modes compared, paired over seeds"));
  EXPECT_THAT(markdown, HasSubstr("0.800 ("));
  EXPECT_THAT(report::render_html(seeded_run(), seeded_sweep()), HasSubstr("Modes compared, paired over seeds"));
  simdjson::dom::parser parser;
  const std::string json = report::render_json(seeded_run(), seeded_sweep());
  EXPECT_EQ(parser.parse(json)["kvist"]["comparison"]["baseline"].get_string().value(), "round_robin");
  EXPECT_THAT(report::render_markdown(sample_run(), sample_sweep()), Not(HasSubstr("Modes compared")));
  EXPECT_THAT(report::render_json(sample_run(), sample_sweep()), Not(HasSubstr("\"comparison\"")));
}

}  // namespace
}  // namespace kvist::analysis::comparison_test

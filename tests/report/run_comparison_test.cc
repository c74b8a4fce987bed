// Runs beside each other: changes with their intervals, the phases as a document and as a page, merged runs.
#include "kvist/report/run_comparison.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <utility>

#include "analysis/sample_run.h"
#include "kvist/base/random.h"
#include "kvist/report/report.h"
#include "render/html_nesting.h"

namespace kvist::report::run_comparison_test {
namespace {

using analysis::Headline;
using analysis::NamedRun;
using analysis::PairedVerdict;
using analysis::sample_sweep;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// 60 conversations of four turns whose TTFT is about `ttft_ms`.
results::LevelRecord level_at(std::uint32_t concurrency, double ttft_ms, std::uint64_t seed,
                              std::uint32_t repetition = 0) {
  results::LevelRecord level = analysis::sample_level(spec::RoutingMode::kKv, concurrency, ttft_ms);
  level.seed = seed;
  level.repetition = repetition;
  level.turns.clear();
  RandomStream random(mix_seed({seed, concurrency}));
  for (std::uint32_t c = 0; c < 60; ++c) {
    for (std::uint32_t t = 0; t < 4; ++t) {
      workload::TurnSample turn = analysis::turn_sent_at(6'000 + 100 * c + t, 0, {20, 21});
      turn.first_token = turn.sent + from_milliseconds(ttft_ms * (1 + 0.2 * random.uniform()));
      turn.last_token = turn.ended = turn.first_token + from_milliseconds(41);
      turn.conversation = ConversationId(c);
      turn.turn = t;
      level.turns.push_back(std::move(turn));
    }
  }
  return level;
}

spec::SweepSpec one_mode() {
  spec::SweepSpec sweep = sample_sweep();
  sweep.modes = {spec::RoutingMode::kKv};
  return sweep;
}

analysis::RunAnalysis run_of(const char* name, std::vector<results::LevelRecord> levels,
                             const spec::SweepSpec& sweep = one_mode()) {
  results::RunRecord run = analysis::sample_run();
  run.name = name;
  run.levels = std::move(levels);
  return {run, sweep};
}

void fail_turns(results::LevelRecord& level, std::size_t every) {
  for (std::size_t i = 0; i < level.turns.size(); i += every) {
    level.turns[i].outcome = workload::TurnOutcome::kFailed;
  }
}

TEST(RunChanges, OneMeasurementEachHasTheBootstrapsInterval) {
  const auto before = run_of("a", {level_at(40, 100, 5)});
  const auto faster = run_of("b", {level_at(40, 50, 5)});
  const auto other_seed = run_of("c", {level_at(40, 50, 99)});
  const auto& p50 = analysis::headline(Headline::kTtftP50);
  const auto change = analysis::change_of(&before.levels()[0], &faster.levels()[0], p50);
  EXPECT_NEAR(*change.change.value, -50, 1e-6);
  ASSERT_TRUE(change.change.interval.has_value());
  // The same conversations, each twice as fast: the change is known exactly.
  EXPECT_NEAR(change.change.interval->high - change.change.interval->low, 0, 1e-3);
  EXPECT_EQ(change.verdict, PairedVerdict::kBetter);
  // Of other conversations it is not.
  const auto apart = analysis::change_of(&before.levels()[0], &other_seed.levels()[0], p50);
  ASSERT_TRUE(apart.change.interval.has_value());
  EXPECT_GT(apart.change.interval->high - apart.change.interval->low, 0.5);
  EXPECT_LT(apart.change.interval->low, *apart.change.value);
  EXPECT_EQ(analysis::change_of(&faster.levels()[0], &before.levels()[0], p50).verdict, PairedVerdict::kWorse);
  EXPECT_EQ(analysis::change_of(&before.levels()[0], &before.levels()[0], p50).verdict, PairedVerdict::kEqual);
  // Rates of a single measurement have no interval.
  const auto rate =
      analysis::change_of(&before.levels()[0], &faster.levels()[0], analysis::headline(Headline::kThroughput));
  EXPECT_EQ(rate.verdict, PairedVerdict::kOpen);
  EXPECT_FALSE(rate.change.interval.has_value());
}

TEST(RunChanges, ThreeRepetitionsHaveStudentsOrWelchsInterval) {
  const auto repeated = [](const char* name, double ttft, std::uint64_t first_seed) {
    std::vector<results::LevelRecord> levels;
    for (std::uint32_t i = 0; i < 3; ++i) levels.push_back(level_at(40, ttft * (1 + 0.02 * i), first_seed + i, i));
    return run_of(name, std::move(levels));
  };
  const auto before = repeated("a", 100, 1);
  const auto paired = repeated("b", 110, 1);
  const auto apart = repeated("c", 110, 50);
  const auto& p50 = analysis::headline(Headline::kTtftP50);
  const auto with_pairs = analysis::change_of(&before.levels()[0], &paired.levels()[0], p50);
  const auto without = analysis::change_of(&before.levels()[0], &apart.levels()[0], p50);
  EXPECT_NEAR(*with_pairs.change.value, 10, 0.1);
  EXPECT_EQ(with_pairs.verdict, PairedVerdict::kWorse);
  ASSERT_TRUE(with_pairs.change.interval && without.change.interval);
  const auto width = [](const Interval& interval) { return interval.high - interval.low; };
  EXPECT_LT(10 * width(*with_pairs.change.interval), width(*without.change.interval));
  // Welch by hand: both standard deviations are near 2 % of their means, n = 3, 4 degrees of freedom: t = 2.776.
  const auto spread_a = before.levels()[0].spread(p50.figure).value();
  const auto spread_b = apart.levels()[0].spread(p50.figure).value();
  const double error =
      std::sqrt((std::pow(spread_a.standard_deviation, 2) + std::pow(spread_b.standard_deviation, 2)) / 3);
  EXPECT_GT(width(*without.change.interval), 2 * 2.776 * error / spread_a.mean * 100 * 0.99);
  EXPECT_LT(width(*without.change.interval), 2 * 3.183 * error / spread_a.mean * 100 * 1.01);  // 3 degrees
}

TEST(RunChanges, PercentagesChangeInPointsAndMoreMayBeBetter) {
  results::LevelRecord warm = level_at(40, 100, 5);
  results::LevelRecord cold = level_at(40, 100, 5);
  for (auto* const level : {&warm, &cold}) {
    for (workload::TurnSample& turn : level->turns) {
      turn.prompt_tokens = 1'000;
      turn.cached_tokens = level == &warm ? 900 : 400;
    }
  }
  const auto before = run_of("a", {cold,
                                   [&] {
                                     auto again = cold;
                                     again.repetition = 1;
                                     again.seed = 6;
                                     return again;
                                   }(),
                                   [&] {
                                     auto again = cold;
                                     again.repetition = 2;
                                     again.seed = 7;
                                     return again;
                                   }()});
  const auto after = run_of("b", {warm,
                                  [&] {
                                    auto again = warm;
                                    again.repetition = 1;
                                    again.seed = 6;
                                    return again;
                                  }(),
                                  [&] {
                                    auto again = warm;
                                    again.repetition = 2;
                                    again.seed = 7;
                                    return again;
                                  }()});
  const auto change =
      analysis::change_of(&before.levels()[0], &after.levels()[0], analysis::headline(Headline::kHitRatePct));
  EXPECT_NEAR(*change.change.value, 50, 1e-9);
  EXPECT_EQ(change.verdict, PairedVerdict::kBetter);
}

TEST(RunChanges, WhatMustNotBeComparedIsNot) {
  const auto before = run_of("a", {level_at(40, 100, 5)});
  results::LevelRecord failing = level_at(40, 50, 5);
  fail_turns(failing, 10);
  const auto failed = run_of("b", {failing});
  const auto& p50 = analysis::headline(Headline::kTtftP50);
  EXPECT_FALSE(analysis::change_of(&before.levels()[0], &failed.levels()[0], p50).change.value.has_value());
  EXPECT_FALSE(analysis::change_of(nullptr, &before.levels()[0], p50).change.value.has_value());
  const auto refusal = [&](const analysis::RunAnalysis& after) {
    const auto pair = analysis::pair_runs({"old", &before}, {"new", &after});
    return pair ? "none" : pair.error().message;
  };
  EXPECT_EQ(refusal(failed), "none");
  spec::SweepSpec other = one_mode();
  other.workload.turns_max += 1;
  EXPECT_THAT(refusal(run_of("c", {level_at(40, 50, 5)}, other)),
              AllOf(HasSubstr("old and new: they sent different loads"), HasSubstr("turns_max")));
  other = one_mode();
  other.workload.seed = 1234;
  EXPECT_EQ(refusal(run_of("d", {level_at(40, 50, 5)}, other)), "none");
  EXPECT_THAT(refusal(run_of("e", {level_at(50, 50, 5)})), HasSubstr("no level in common"));
}

TEST(RunChanges, SettingsThatDifferAreNamedByTheirPath) {
  spec::SweepSpec before = one_mode();
  spec::SweepSpec after = one_mode();
  after.deployment.workers[0].max_batch_size = 17;
  after.deployment.workers[0].name = "another";
  after.name = "other";
  after.workload.seed = 9;
  const auto changes = analysis::setting_changes(before, after);
  ASSERT_EQ(changes.size(), 1U) << changes.back().key;
  EXPECT_EQ(changes[0].key, "deployment.workers.0.max_batch_size");
  EXPECT_EQ(changes[0].after, "17");
}

/// Phase 3 is faster at 40, and at 50 it fails.
std::vector<analysis::RunPair> phases(const analysis::RunAnalysis& before, const analysis::RunAnalysis& after) {
  return {*analysis::pair_runs({"Phase 0", &before}, {"Phase <3>", &after})};
}

analysis::RunAnalysis failing_at_50() {
  results::LevelRecord failing = level_at(50, 1'500, 6);
  fail_turns(failing, 10);
  spec::SweepSpec sweep = one_mode();
  sweep.deployment.workers[0].max_batch_size = 17;
  return run_of("three", {level_at(40, 50, 5), failing}, sweep);
}

TEST(RunComparison, PhasesAreAnAnalysisInThePublishedLayout) {
  const auto before = run_of("zero", {level_at(40, 100, 5), level_at(50, 120, 6)});
  const auto after = failing_at_50();
  const std::string markdown = run_comparison_markdown(phases(before, after));
  // The report of the last run, with the analysis before the reference data.
  EXPECT_THAT(markdown, HasSubstr("# Benchmark Sweep: KV-aware Concurrency Scaling (40-50)\n"));
  EXPECT_LT(markdown.find("## Analysis: Phase &lt;3> vs Phase 0"), markdown.find("## Reference Data (JSON)"));
  for (const char* heading : {"### Phase 0 Baseline Reference", "### TPOT Comparison", "### TTFT Comparison",
                              "### Saturation Point", "### Conclusion"}) {
    EXPECT_THAT(markdown, HasSubstr(heading));
  }
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | Phase 0 TTFT p50 | Phase &lt;3> TTFT p50 | Change |"));
  EXPECT_THAT(markdown, ContainsRegex("\\| 40 \\| 1[0-9.]+ms \\([^|]*\\) \\| 5[0-9.]+ms \\([^|]*\\) \\| -50.0% "
                                      "\\([^|]*\\) better \\|"));
  EXPECT_THAT(markdown, HasSubstr("| deployment.workers.0.max_batch_size | 64 | 17 |"));
  EXPECT_THAT(markdown, HasSubstr("| First errors | none up to 50 | Concurrency 50 (10.0%) |"));
  EXPECT_THAT(markdown, HasSubstr("| Sustained >5% errors | none up to 50 | Concurrency 50 |"));
  EXPECT_THAT(markdown, HasSubstr("| TTFT p50 > 1s | none up to 50 | Concurrency 50 |"));
  EXPECT_THAT(markdown, HasSubstr("- **TTFT p50:** better at 1 of 1 level: -50.0%."));
  EXPECT_THAT(markdown, HasSubstr("KV at 50:** not compared: 10.0% errors."));
}

TEST(RunComparison, ThePageOverlaysTheRunsAndEscapesTheirNames) {
  const auto before = run_of("zero", {level_at(40, 100, 5), level_at(50, 120, 6)});
  const auto middle = run_of("one", {level_at(40, 90, 5), level_at(50, 110, 6)});
  const auto after = run_of("three", {level_at(40, 50, 5), level_at(50, 60, 6)});
  const std::vector<analysis::RunPair> pairs = {*analysis::pair_runs({"Phase 0", &before}, {"Phase 1", &middle}),
                                                *analysis::pair_runs({"Phase 0", &before}, {"Phase <3>", &after})};
  const std::string page = run_comparison_page(pairs);
  EXPECT_EQ(render::nesting_error(page), "");
  EXPECT_THAT(page, HasSubstr("<h1>Phase 1, Phase &lt;3&gt; against Phase 0</h1>"));
  EXPECT_THAT(page, Not(HasSubstr("Phase <3>")));
  EXPECT_THAT(page, Not(ContainsRegex("(src|href)=\"http")));
  const std::vector<render::Plot> plots = overlaid_plots(pairs);
  ASSERT_FALSE(plots.empty());
  ASSERT_EQ(plots[0].series.size(), 3U);
  EXPECT_EQ(plots[0].series[2].name, "Phase <3>");
  EXPECT_TRUE(plots[0].series[0].points[0].low.has_value());
  const std::vector<render::Plot> changes = change_plots(pairs);
  ASSERT_EQ(changes[0].series.size(), 2U);
  EXPECT_NEAR(*changes[0].series[1].points[0].y, -50, 1e-6);
  EXPECT_EQ(changes[0].series[1].colour, plots[0].series[2].colour);
  EXPECT_THAT(page, HasSubstr("TTFT p50: change against Phase 0"));
}

TEST(RunComparison, NoChangeHasNoSign) {
  const auto before = run_of("a", {level_at(40, 100, 5)});
  const auto after = run_of("b", {level_at(40, 99.99, 5)});
  const std::vector<analysis::RunPair> pairs = {
      analysis::pair_runs({.name = "a", .analysis = &before}, {.name = "b", .analysis = &after}).value()};
  EXPECT_THAT(run_comparison_text(pairs), AllOf(HasSubstr("+0.0%"), Not(HasSubstr("-0.0"))));
}

TEST(RunComparison, TerminalAndJsonHaveTheSameChanges) {
  const auto before = run_of("zero", {level_at(40, 100, 5), level_at(50, 120, 6)});
  const auto after = failing_at_50();
  const std::vector<analysis::RunPair> pairs = phases(before, after);
  EXPECT_THAT(run_comparison_text(pairs), AllOf(HasSubstr("Phase <3> against Phase 0"), ContainsRegex("40 +-50.0% ")));
  simdjson::dom::parser parser;
  const std::string json = run_comparison_json(pairs);
  const simdjson::dom::element root = parser.parse(json);
  const simdjson::dom::element level = root["changes"].at(0)["levels"].at(0);
  EXPECT_NEAR(double(level["figures"]["ttft_p50_ms"]["change_pct"]["value"]), -50, 1e-5);
  EXPECT_EQ(std::string_view(level["figures"]["ttft_p50_ms"]["verdict"]), "better");
  EXPECT_TRUE(root["changes"].at(0)["levels"].at(1)["figures"]["ttft_p50_ms"]["change_pct"]["value"].is_null());
}

TEST(CombinedRun, NamesItsPartsAndMarksWhatWasLeftOut) {
  std::vector<results::LevelRecord> levels;
  for (std::uint32_t i = 0; i < 3; ++i) {
    levels.push_back(level_at(40, 100, 1 + i, i));
    levels.push_back(level_at(50, 130, 11 + i, i));
  }
  fail_turns(levels[3], 3);
  results::RunRecord run = analysis::sample_run();
  run.levels = std::move(levels);
  run.sources = {
      {.place = "out/first", .name = "one", .started_utc = "2026-03-01T10:00:00Z", .levels = "kv at 40, 3 times each"},
      {.place = "out/second", .name = "two", .started_utc = "", .levels = "kv at 50, 3 times each"}};
  const std::string markdown = render_markdown(run, one_mode());
  EXPECT_THAT(markdown, HasSubstr("# Combined Benchmark Sweep: KV-aware Concurrency Scaling (40-50)"));
  EXPECT_THAT(markdown, HasSubstr("UTC (combined from 2 sweep sessions)"));
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | TPOT p50 | TPOT p95 | Error % | Valid Runs |"));
  EXPECT_THAT(markdown, ContainsRegex("\\| 50 \\|[^\n]*\\| 2/3 \\|"));
  EXPECT_THAT(markdown, HasSubstr("1 run excluded (33.3% errors) |"));
  EXPECT_THAT(markdown, HasSubstr("### TPOT Degradation Curve"));
  EXPECT_THAT(markdown, ContainsRegex("Conc: +40 +50\np95: +[0-9]+ms +[0-9]+ms\n"));
  EXPECT_THAT(markdown, ContainsRegex("\\*\\*TTFT p50:\\*\\* [^\n]* at 40, [^\n]* at 50 \\(1.[0-9] times\\)"));
  EXPECT_THAT(markdown, HasSubstr("- **kv at 40, 3 times each:** `out/first` (one, 2026-03-01 10:00:00 UTC)"));
  EXPECT_THAT(markdown, HasSubstr("`out/second` (two, unknown time)"));
  run.sources.clear();
  EXPECT_THAT(render_markdown(run, one_mode()), AllOf(Not(HasSubstr("Combined")), Not(HasSubstr("Source Data"))));
}

}  // namespace
}  // namespace kvist::report::run_comparison_test

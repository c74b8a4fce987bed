#include "kvist/analysis/repetitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "analysis/sample_run.h"
#include "kvist/analysis/level_figures.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/report/report.h"

namespace kvist::analysis::repetitions_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Every level three times: TTFT p50 as in the sample, 10 ms above it, 10 ms below it.
results::RunRecord repeated_run() {
  results::RunRecord run = sample_run();
  std::vector<results::LevelRecord> levels;
  for (const results::LevelRecord& level : run.levels) {
    for (std::uint32_t repetition = 0; repetition < 3; ++repetition) {
      results::LevelRecord copy = level;
      copy.repetition = repetition;
      copy.seed = level.seed + 100 * repetition;
      for (workload::Snapshot& snapshot : copy.snapshots) {
        *snapshot.ttft_p50_ms += repetition == 0 ? 0 : repetition == 1 ? 10 : -10;
      }
      levels.push_back(std::move(copy));
    }
  }
  run.levels = std::move(levels);
  return run;
}

spec::SweepSpec repeated_sweep() {
  spec::SweepSpec sweep = sample_sweep();
  sweep.method.repetitions = 3;
  return sweep;
}

void fail_turns(results::LevelRecord& level, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) level.turns[i].outcome = workload::TurnOutcome::kFailed;
}

TEST(Repetitions, FiguresAreMeansWithTheirSpread) {
  const RunAnalysis analysis(repeated_run(), repeated_sweep());
  ASSERT_EQ(analysis.levels().size(), 4U);
  EXPECT_TRUE(analysis.repeated());
  const MeasuredLevel& level = *analysis.find(spec::RoutingMode::kKv, 40);
  EXPECT_EQ(level.repetitions.size(), 3U);
  EXPECT_DOUBLE_EQ(figure::ttft_p50_ms(level.analysis).value(), 200);
  const Spread spread = level.spread(figure::ttft_p50_ms).value();
  EXPECT_EQ(spread.count, 3U);
  EXPECT_DOUBLE_EQ(spread.mean, 200);
  EXPECT_DOUBLE_EQ(spread.min, 190);
  EXPECT_DOUBLE_EQ(spread.max, 210);
  EXPECT_DOUBLE_EQ(spread.standard_deviation, 10);
}

TEST(Repetitions, CountsAreSumsAndGaugesStayGauges) {
  const RunAnalysis analysis(repeated_run(), repeated_sweep());
  const MeasuredLevel& level = *analysis.find(spec::RoutingMode::kKv, 40);
  EXPECT_EQ(level.analysis.all_turns.succeeded, 30U);
  EXPECT_EQ(level.analysis.prefilled_tokens.value(), 3'000U);
  EXPECT_EQ(level.analysis.exact.ttft_ms.count, 30U);
  EXPECT_DOUBLE_EQ(level.analysis.exact.ttft_ms.p50, 145);  // as in each of the three
  EXPECT_EQ(level.analysis.sorted_ttft_ms.size(), 30U);
  EXPECT_DOUBLE_EQ(level.analysis.hit_rate.client_pct.value(), 90);
  EXPECT_DOUBLE_EQ(level.analysis.imbalance.value(), 1);
  ASSERT_EQ(level.record.workers.size(), 2U);
  EXPECT_EQ(level.record.workers[0].evictions, 9U);
  EXPECT_DOUBLE_EQ(level.record.workers[0].running_mean, 2.5);
  EXPECT_DOUBLE_EQ(level.record.workers[0].kv_usage_max, 0.5);
}

TEST(Repetitions, RepetitionsWithTooManyErrorsAreExcludedUnlessAllHaveThem) {
  results::RunRecord run = repeated_run();
  fail_turns(run.levels[1], 2);  // round-robin at 40, second repetition: 20 % errors
  {
    const RunAnalysis analysis(run, repeated_sweep());
    const MeasuredLevel& level = *analysis.find(spec::RoutingMode::kRoundRobin, 40);
    EXPECT_EQ(level.counted(), 2U);
    EXPECT_FALSE(level.analysis.excluded);
    EXPECT_DOUBLE_EQ(level.analysis.error_pct.value(), 0);
    EXPECT_DOUBLE_EQ(figure::ttft_p50_ms(level.analysis).value(), 245);  // of 250 and 240
  }
  fail_turns(run.levels[0], 2);
  fail_turns(run.levels[2], 2);
  const RunAnalysis analysis(run, repeated_sweep());
  const MeasuredLevel& level = *analysis.find(spec::RoutingMode::kRoundRobin, 40);
  EXPECT_EQ(level.counted(), 3U);
  EXPECT_TRUE(level.analysis.excluded);
  EXPECT_DOUBLE_EQ(level.analysis.error_pct.value(), 20);
}

TEST(Repetitions, TheReportShowsMeanSpreadAndBand) {
  const std::string markdown = report::render_markdown(repeated_run(), repeated_sweep());
  EXPECT_THAT(markdown, HasSubstr("| 40 | 250ms ± 10ms | 200ms ± 10ms | 20.0% |"));
  EXPECT_THAT(markdown, HasSubstr("## Spread over repetitions"));
  EXPECT_THAT(markdown, HasSubstr("| 40 | KV | 3/3 | 145ms ± 0ms (145ms to 145ms) |"));  // the same turns thrice
  const std::string html = report::render_html(repeated_run(), repeated_sweep());
  EXPECT_THAT(html, HasSubstr("<path class=\"band b1\""));
  EXPECT_THAT(html,
              HasSubstr("KV cache-aware p50, concurrency 40: 145.00 ms (95 % interval 145.00 to 145.00), mean of 3"));
  simdjson::dom::parser parser;
  const std::string json = report::render_json(repeated_run(), repeated_sweep());
  const simdjson::dom::element root = parser.parse(json);
  const simdjson::dom::element own = root["levels"].at(0)["kv_aware"]["kvist"]["repetitions"];
  EXPECT_EQ(std::uint64_t(own["count"]), 3U);
  EXPECT_EQ(std::uint64_t(own["counted"]), 3U);
  EXPECT_EQ(std::uint64_t(own["seeds"].at(2)), 247U);
  EXPECT_DOUBLE_EQ(double(own["ttft_p50_ms"]["standard_deviation"]), 10);
  EXPECT_DOUBLE_EQ(double(own["ttft_p50_ms"]["max"]), 210);
  EXPECT_EQ(std::uint64_t(root["kvist"]["method"]["repetitions"]), 3U);
}

TEST(Repetitions, OneMeasurementLooksAsBefore) {
  EXPECT_THAT(report::render_markdown(sample_run(), sample_sweep()), Not(HasSubstr("±")));
  EXPECT_THAT(report::render_json(sample_run(), sample_sweep()), Not(HasSubstr("\"seeds\"")));
  EXPECT_THAT(report::render_html(sample_run(), sample_sweep()), Not(HasSubstr("class=\"band")));
}

TEST(Repetitions, ALevelMeasuredAgainCountsWithItsLastMeasurement) {
  results::RunRecord run = sample_run();
  run.levels.push_back(sample_level(spec::RoutingMode::kKv, 40, 100));
  const RunAnalysis analysis(run, sample_sweep());
  EXPECT_EQ(analysis.find(spec::RoutingMode::kKv, 40)->repetitions.size(), 1U);
  EXPECT_DOUBLE_EQ(figure::ttft_p50_ms(analysis.find(spec::RoutingMode::kKv, 40)->analysis).value(), 100);
}

TEST(Repetitions, ASimulatedRunIsMarkedAndHasNoClientMeasurements) {
  results::RunRecord run = sample_run();
  run.simulated = true;
  const std::string markdown = report::render_markdown(run, sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("**This run is simulated.**"));
  EXPECT_THAT(markdown, HasSubstr("a simulated client takes no time and no processor"));
  EXPECT_THAT(markdown, Not(HasSubstr("Loop delay")));
  const std::string json = report::render_json(run, sample_sweep());
  EXPECT_THAT(json, HasSubstr("\"simulated\": true"));
  EXPECT_THAT(json, Not(HasSubstr("loop_delay_p99_ms")));
}

}  // namespace
}  // namespace kvist::analysis::repetitions_test

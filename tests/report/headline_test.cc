// Headline figures: exact, with intervals, with the digits that are known, and beside them the published method.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "analysis/sample_run.h"
#include "kvist/analysis/comparison.h"
#include "kvist/analysis/headline.h"
#include "kvist/base/random.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/level_line.h"
#include "kvist/report/report.h"

namespace kvist::report::headline_test {
namespace {

using analysis::Estimate;
using analysis::Headline;
using analysis::sample_run;
using analysis::sample_sweep;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// 60 conversations of four turns. TTFT has two humps, about 10 and 60 ms; kv is `faster` times as fast.
results::LevelRecord two_humps(spec::RoutingMode mode, double faster, std::uint64_t seed = 5) {
  results::LevelRecord level = analysis::sample_level(mode, 40, 33);
  level.seed = seed;
  level.turns.clear();
  RandomStream random(seed);
  for (std::uint32_t c = 0; c < 60; ++c) {
    for (std::uint32_t t = 0; t < 4; ++t) {
      const double ttft = (random.uniform() < 0.7 ? 10 : 60) * (1 + 0.1 * random.uniform()) / faster;
      workload::TurnSample turn = analysis::turn_sent_at(6'000 + 100 * c + t, 0, {20, 21});
      turn.first_token = turn.sent + from_milliseconds(ttft);
      turn.conversation = ConversationId(c);
      turn.turn = t;
      level.turns.push_back(std::move(turn));
    }
  }
  return level;
}

results::RunRecord run_of(std::vector<results::LevelRecord> levels) {
  results::RunRecord run = sample_run();
  run.levels = std::move(levels);
  return run;
}

TEST(Headline, ALevelsLineHasIntervalsAndTheClientsVerdict) {
  results::LevelRecord record = two_humps(spec::RoutingMode::kKv, 1);
  const auto line = [&] {
    return level_line(analysis::merge_repetitions({analysis::measure(record, sample_sweep().method)}));
  };
  constexpr const char* kCell = "[0-9.]+ms \\([0-9.]+ to [0-9.]+\\)";
  EXPECT_THAT(line(), ContainsRegex(fmt::format("^TTFT p50 {0}, p95 {0}, ITL p50 20\\.5ms.*, p95 21", kCell)));
  EXPECT_THAT(line(), HasSubstr(" tokens/s; client valid"));
  record.client.cpu_share = 0.97;
  EXPECT_THAT(line(), HasSubstr("client degraded: CPU share 0.97 is above"));
  record.turns.clear();
  EXPECT_THAT(line(), HasSubstr("TTFT p50 -, p95 -, ITL p50 -, p95 -, "));
}

TEST(Headline, EveryFigureHasItsIntervalAndGainsArePaired) {
  const results::RunRecord run =
      run_of({two_humps(spec::RoutingMode::kRoundRobin, 1), two_humps(spec::RoutingMode::kKv, 2)});
  const analysis::RunAnalysis analysis(run, sample_sweep());
  const auto& rr = *analysis.find(spec::RoutingMode::kRoundRobin, 40);
  const auto& kv = *analysis.find(spec::RoutingMode::kKv, 40);
  const Estimate p50 = analysis::estimate_of(rr, analysis::headline(Headline::kTtftP50));
  ASSERT_TRUE(p50.interval.has_value());
  EXPECT_LT(p50.interval->low, *p50.value);
  EXPECT_GT(p50.interval->high, *p50.value);
  // The same conversations in both modes, each twice as fast: the gain is known exactly although neither p50 is.
  const Estimate gain = analysis::gain_of(&rr, &kv, analysis::headline(Headline::kTtftP50));
  EXPECT_NEAR(*gain.value, 50, 1e-3);
  EXPECT_NEAR(gain.interval->low, 50, 1e-3);
  EXPECT_NEAR(gain.interval->high, 50, 1e-3);
  EXPECT_FALSE(analysis::estimate_of(rr, analysis::headline(Headline::kThroughput)).interval.has_value());
}

TEST(Headline, ThreeRepetitionsHaveStudentsIntervalOverTheirValues) {
  std::vector<results::LevelRecord> levels;
  for (std::uint32_t repetition = 0; repetition < 3; ++repetition) {
    levels.push_back(two_humps(spec::RoutingMode::kKv, 1 + 0.1 * repetition, 5));
    levels.back().repetition = repetition;
  }
  const analysis::RunAnalysis analysis(run_of(std::move(levels)), sample_sweep());
  const auto& level = *analysis.find(spec::RoutingMode::kKv, 40);
  const Estimate p50 = analysis::estimate_of(level, analysis::headline(Headline::kTtftP50));
  const analysis::Spread spread = level.spread(analysis::headline(Headline::kTtftP50).figure).value();
  EXPECT_DOUBLE_EQ(*p50.value, spread.mean);
  EXPECT_NEAR(p50.interval->high - spread.mean, 4.302653 * spread.standard_deviation / std::sqrt(3.0), 1e-6);
}

TEST(Headline, TheSpreadOfRepetitionsHasTheDigitsInWhichTheyDiffer) {
  std::vector<results::LevelRecord> levels;
  for (std::uint32_t repetition = 0; repetition < 3; ++repetition) {
    results::LevelRecord& level = levels.emplace_back(analysis::sample_level(spec::RoutingMode::kKv, 40, 100));
    level.repetition = repetition;
    for (workload::TurnSample& turn : level.turns) {
      turn.first_token = turn.sent + from_milliseconds(11.12 + 0.03 * repetition);
    }
  }
  const std::string markdown = render_markdown(run_of(std::move(levels)), sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("| 40 | KV | 3/3 | 11.15ms ± 0.03ms (11.12ms to 11.18ms) |"));
  EXPECT_THAT(markdown, HasSubstr("tables of turns and tokens their sum"));
}

TEST(Headline, RepetitionsOfTheSameRequestsAreOneSample) {
  const auto run_with = [](std::uint32_t repetitions) {
    std::vector<results::LevelRecord> levels;
    for (const auto& [mode, faster] : {std::pair(spec::RoutingMode::kRoundRobin, 1), {spec::RoutingMode::kKv, 2}}) {
      for (std::uint32_t repetition = 0; repetition < repetitions; ++repetition) {
        levels.push_back(two_humps(mode, faster, 5));
        levels.back().repetition = repetition;
      }
    }
    results::RunRecord run = run_of(std::move(levels));
    run.simulated = true;
    return run;
  };
  spec::SweepSpec sweep = sample_sweep();
  sweep.workload.trace.file = "chat.jsonl";
  const analysis::RunAnalysis once(run_with(1), sweep);
  const analysis::RunAnalysis thrice(run_with(3), sweep);
  const auto& p95 = analysis::headline(Headline::kTtftP95);
  const Estimate one = analysis::estimate_of(*once.find(spec::RoutingMode::kKv, 40), p95);
  const Estimate three = analysis::estimate_of(*thrice.find(spec::RoutingMode::kKv, 40), p95);
  ASSERT_TRUE(one.interval.has_value() && three.interval.has_value());
  EXPECT_LT(one.interval->low, one.interval->high);
  EXPECT_NEAR(three.interval->low, one.interval->low, 1e-6);
  EXPECT_NEAR(three.interval->high, one.interval->high, 1e-6);
  const auto& rate = analysis::headline(Headline::kTurnRate);
  EXPECT_FALSE(analysis::estimate_of(*thrice.find(spec::RoutingMode::kKv, 40), rate).interval.has_value());
  // Nothing is compared over pairs that are one pair.
  EXPECT_FALSE(analysis::is_comparable(thrice));
  const auto comparison = analysis::compare_modes(thrice);
  ASSERT_TRUE(comparison.has_value());
  const auto* figure = comparison->find(spec::RoutingMode::kKv, 40)->find("ttft_p95_ms");
  EXPECT_EQ(figure->change.pairs, 1U);
  EXPECT_EQ(figure->verdict, analysis::PairedVerdict::kOpen);
  EXPECT_THAT(render_markdown(run_with(3), sweep), HasSubstr("The repetitions replay the same requests"));
}

TEST(Headline, ThePublishedMethodStandsBesideItAndSaysWhereItParts) {
  // Both snapshots read about 33 ms, the mean of two humps, where no turn is.
  const std::string markdown = render_markdown(
      run_of({two_humps(spec::RoutingMode::kRoundRobin, 1), two_humps(spec::RoutingMode::kKv, 2)}), sample_sweep());
  EXPECT_THAT(markdown, ContainsRegex("\\| 40 \\| 10\\.[0-9]+ms \\([0-9.]+ to [0-9.]+\\) \\| 5\\.[0-9]+ms \\("));
  EXPECT_THAT(markdown, ContainsRegex("\\*\\*TTFT p50 of RR at 40:\\*\\* published method 33\\.[0-9]*ms, exact 10\\."));
  EXPECT_THAT(markdown, HasSubstr("its snapshots read 32"));
  EXPECT_THAT(markdown, HasSubstr("the windows see 40.0% of the time"));
}

TEST(Headline, WhatIsPrintedAlikeIsNoDifferenceOfTheMethods) {
  const auto repetitions = [](double ttft_ms) {
    std::vector<results::LevelRecord> levels;
    for (std::uint32_t repetition = 0; repetition < 3; ++repetition) {
      levels.push_back(analysis::sample_level(spec::RoutingMode::kKv, 40, 33));  // by the published method
      levels.back().repetition = repetition;
      for (workload::TurnSample& turn : levels.back().turns) turn.first_token = turn.sent + from_milliseconds(ttft_ms);
    }
    return run_of(std::move(levels));
  };
  EXPECT_THAT(render_markdown(repetitions(33.004), sample_sweep()), Not(HasSubstr("**TTFT p50 of KV at 40:**")));
  EXPECT_THAT(render_markdown(repetitions(34), sample_sweep()), HasSubstr("**TTFT p50 of KV at 40:**"));
}

TEST(Headline, ADegradedClientIsMarkedInTheHeadlineTable) {
  results::RunRecord run = run_of({two_humps(spec::RoutingMode::kRoundRobin, 1), two_humps(spec::RoutingMode::kKv, 2)});
  run.levels[1].client.cpu_share = 0.95;
  const std::string markdown = render_markdown(run, sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("| 40 (client degraded: KV) | "));
  EXPECT_THAT(markdown, HasSubstr("**Client:** the load generator was too busy to measure well"));
  EXPECT_THAT(markdown, HasSubstr("KV at 40 (degraded: CPU share 0.95 is above 0.80 of one core)"));
  EXPECT_THAT(render_terminal(run, sample_sweep()), HasSubstr("kv (client degraded)"));
  EXPECT_THAT(render_html(run, sample_sweep()), HasSubstr(", client degraded</title>"));
  run.simulated = true;
  EXPECT_THAT(render_markdown(run, sample_sweep()), Not(HasSubstr("client degraded")));
}

TEST(Headline, AnInvalidClientIsMarkedAsThatWithItsBounds) {
  results::RunRecord run = sample_run();
  results::ClientCertificate certificate{.chunks = 40, .stamped_chunks = 40, .receive_delay_p99_ms = 88.5};
  certificate.shares.fill(results::ClientShare{.low_ms = -90, .high_ms = 30});
  run.levels[1].client.certificate = certificate;
  const std::string markdown = render_markdown(run, sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("| 40 (client invalid: KV) | "));
  EXPECT_THAT(markdown, HasSubstr("KV at 40 (invalid: 90.0 ms of the TTFT p50 (145.0 ms) may be the client's; "));
  EXPECT_THAT(markdown, HasSubstr("| 40 | KV | 90.0, 90.0, 90.0ms | 90.0, 90.0, 90.0ms | 88.50ms | 0.20ms |"));
  EXPECT_THAT(render_terminal(run, sample_sweep()), HasSubstr("kv (client invalid)"));
  EXPECT_THAT(render_html(run, sample_sweep()), HasSubstr(", client invalid</title>"));
}

TEST(Headline, TheVerdictComesFirst) {
  results::RunRecord run = run_of({two_humps(spec::RoutingMode::kRoundRobin, 1), two_humps(spec::RoutingMode::kKv, 2)});
  const std::string markdown = render_markdown(run, sample_sweep());
  EXPECT_LT(markdown.find("## Verdict"), markdown.find("## Test Methodology"));
  EXPECT_THAT(markdown, HasSubstr("- **Gain in TTFT p50:** better at 1 levels, worse at 0, not decided at 0"));
  EXPECT_THAT(markdown, HasSubstr("- **Load generator:** kept up at every level.\n"));
  EXPECT_THAT(markdown, HasSubstr("- **Excluded:** nothing. 1 planned levels were not measured.\n"));
  run.levels[1].client.cpu_share = 0.95;
  EXPECT_THAT(render_markdown(run, sample_sweep()), HasSubstr("too busy at 1 of 2 measurements"));
}

TEST(Headline, JsonHasValuesAndIntervals) {
  simdjson::dom::parser parser;
  const std::string json = render_json(
      run_of({two_humps(spec::RoutingMode::kRoundRobin, 1), two_humps(spec::RoutingMode::kKv, 2)}), sample_sweep());
  const simdjson::dom::element own = parser.parse(json)["levels"].at(0)["round_robin"]["kvist"]["headline"];
  EXPECT_LT(double(own["ttft_p95_ms"]["low"]), double(own["ttft_p95_ms"]["value"]));
  EXPECT_NEAR(double(own["itl_p50_ms"]["value"]), 20.5, 1e-6);
  EXPECT_TRUE(own["output_tokens_per_s"]["low"].is_null());
  EXPECT_TRUE(own["kv_hit_rate_pct"]["value"].is_null());  // no usage: unknown, not 0
}

TEST(Headline, OpenArrivalsAreTestedAgainstTheirLaw) {
  results::LevelRecord level = analysis::sample_level(spec::RoutingMode::kKv, 60, 33);
  level.turns.clear();
  RandomStream random(4);
  double at_s = 0;
  for (std::uint32_t c = 0; (at_s += random.exponential(1)) < 35; ++c) {
    workload::TurnSample turn = analysis::turn_sent_at(0, 20, {20, 21});
    turn.intended = turn.sent = level.started + from_seconds(at_s);
    turn.conversation = ConversationId(c);
    level.turns.push_back(std::move(turn));
  }
  spec::SweepSpec sweep = sample_sweep();
  sweep.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "kvist-arrivals";
  std::filesystem::create_directories(folder);
  bool given = false;
  const auto written = write_report(
      sample_run(), sweep,
      [&]() -> Result<std::optional<results::LevelRecord>> {
        if (std::exchange(given, true)) return std::nullopt;
        return level;
      },
      folder.string());
  ASSERT_TRUE(written.has_value()) << written.error().message;
  std::stringstream markdown;
  markdown << std::ifstream(written->files.markdown).rdbuf();
  EXPECT_THAT(markdown.str(), HasSubstr("arrivals poisson: 1/s ordered"));
  EXPECT_THAT(markdown.str(), HasSubstr("| Starts/min |"));
  std::filesystem::remove_all(folder);
}

/// As two_humps(), each turn sent 25 ms after it was due.
results::RunRecord late_by_25_ms() {
  std::vector<results::LevelRecord> levels = {two_humps(spec::RoutingMode::kRoundRobin, 1),
                                              two_humps(spec::RoutingMode::kKv, 2)};
  for (results::LevelRecord& level : levels) {
    for (workload::TurnSample& turn : level.turns) turn.intended = turn.sent - from_milliseconds(25);
  }
  return run_of(std::move(levels));
}

TEST(Headline, OpenArrivalsHaveTheirFiguresFromTheScheduleToo) {
  spec::SweepSpec sweep = sample_sweep();
  sweep.workload.arrivals.kind = spec::ArrivalKind::kPoisson;
  const results::RunRecord run = late_by_25_ms();
  const analysis::RunAnalysis analysis(run, sweep);
  const analysis::MeasuredLevel& kv = *analysis.find(spec::RoutingMode::kKv, 40);
  for (const auto& [sending, schedule] : {std::pair{Headline::kTtftP50, Headline::kTtftFromScheduleP50},
                                          std::pair{Headline::kTtftP95, Headline::kTtftFromScheduleP95},
                                          std::pair{Headline::kTtftP99, Headline::kTtftFromScheduleP99},
                                          std::pair{Headline::kLatencyP50, Headline::kLatencyFromScheduleP50},
                                          std::pair{Headline::kLatencyP95, Headline::kLatencyFromScheduleP95}}) {
    const Estimate from_sending = analysis::estimate_of(kv, analysis::headline(sending));
    const Estimate from_schedule = analysis::estimate_of(kv, analysis::headline(schedule));
    EXPECT_NEAR(*from_schedule.value, *from_sending.value + 25, 1e-3);
    ASSERT_EQ(from_schedule.interval.has_value(), from_sending.interval.has_value());
    if (!from_schedule.interval) continue;
    EXPECT_NEAR(from_schedule.interval->low, from_sending.interval->low + 25, 1e-3);
    EXPECT_NEAR(from_schedule.interval->high, from_sending.interval->high + 25, 1e-3);
  }
  const std::string markdown = render_markdown(run, sweep);
  EXPECT_THAT(markdown, HasSubstr("### TTFT from sending, and from the schedule: from when the turn was due"));
  EXPECT_THAT(markdown,
              HasSubstr("| RR TTFT p50 | KV TTFT p50 | RR TTFT from schedule p50 | KV TTFT from schedule p50 |"));
  EXPECT_THAT(markdown, HasSubstr("### Latency from the schedule (ms)"));
  EXPECT_THAT(render_terminal(run, sweep), ContainsRegex("TTFT p50 +TTFT from schedule p50"));
  EXPECT_THAT(render_html(run, sweep), HasSubstr("Time to first token, from the schedule"));
  simdjson::dom::parser parser;
  const std::string json = render_json(run, sweep);
  const simdjson::dom::element own = parser.parse(json)["levels"].at(0)["kv_aware"]["kvist"];
  EXPECT_NEAR(double(own["headline"]["ttft_from_schedule_p50_ms"]["value"]),
              double(own["headline"]["ttft_p50_ms"]["value"]) + 25, 1e-3);
  EXPECT_EQ(std::uint64_t(own["exact"]["latency_from_schedule_ms"]["count"]), 240U);
}

TEST(Headline, ClosedLevelsHaveNoSchedule) {
  const results::RunRecord run = late_by_25_ms();
  for (const std::string& text :
       {render_markdown(run, sample_sweep()), render_terminal(run, sample_sweep()), render_html(run, sample_sweep())}) {
    EXPECT_THAT(text, Not(HasSubstr("schedule")));
  }
  simdjson::dom::parser parser;
  const std::string json = render_json(run, sample_sweep());
  const simdjson::dom::element own = parser.parse(json)["levels"].at(0)["kv_aware"]["kvist"];
  EXPECT_TRUE(own["headline"]["ttft_from_schedule_p50_ms"]["value"].is_null());
  EXPECT_NE(own["exact"]["ttft_from_schedule_ms"].error(), simdjson::SUCCESS);
}

TEST(EstimateText, AColumnHasTheDigitsThatAreKnown) {
  const auto decimals = [](std::vector<Estimate> column) { return decimals_of(column); };
  EXPECT_EQ(decimals({{9.4912, {{9.31, 9.66}}}, {12.34, {{11, 14}}}}), 2);
  EXPECT_EQ(decimals({{245, {{243.8, 246.2}}}}), 1);
  EXPECT_EQ(decimals({{245, {{240, 250}}}}), 0);
  EXPECT_EQ(decimals({{245, {{200, 300}}}}), 0);
  EXPECT_EQ(decimals({{9.49, {}}, {123, {}}}), 2);  // without an interval, three digits of the smallest
  EXPECT_EQ(decimals({{31.5, {}}, {123, {}}}), 1);
  EXPECT_EQ(decimals({{0, {}}, {2'825.6, {}}}), 0) << "a level that gave nothing makes no digits known";
  EXPECT_EQ(decimals({{245, {{244.9999, 245.0001}}}}), 2);  // never more than two, or four digits
  EXPECT_EQ(decimals({{1.5, {{1.4999, 1.5001}}}}), 3);
  EXPECT_EQ(decimals({{0.05213, {{0.05190, 0.05241}}}}), 5) << "of seconds the same digits as of milliseconds";
  EXPECT_EQ(decimals({{0.0524, {{0.049, 0.056}}}, {0.61, {{0.55, 0.67}}}}), 3);
  EXPECT_EQ(decimals({{0.0524, {}}}), 4);
  EXPECT_EQ(decimals({{1e-9, {{0.9e-9, 1.1e-9}}}}), 6);
  EXPECT_EQ(decimals({{}, {}}), 0);
  EXPECT_EQ(estimate_cell({.value = 0.05213, .interval = {{0.0519, 0.05241}}}, 5, "s"),
            "0.05213s (0.05190 to 0.05241)");
  EXPECT_EQ(estimate_cell({.value = 9.4912, .interval = {{9.31, 9.66}}}, 2, "ms"), "9.49ms (9.31 to 9.66)");
  EXPECT_EQ(estimate_cell({}, 2, "ms"), "-");
  EXPECT_EQ(gain_cell({.value = -0.01, .interval = {{-3.25, 3}}}), "0.0% (-3.2 to 3.0)");
}

}  // namespace
}  // namespace kvist::report::headline_test

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "analysis/sample_run.h"
#include "kvist/render/document.h"
#include "kvist/report/report.h"

namespace kvist::report::markdown_test {
namespace {

using analysis::sample_level;
using analysis::sample_run;
using analysis::sample_sweep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

std::vector<std::string> headings(const std::string& markdown) {
  std::vector<std::string> found;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) found.push_back(line);
  }
  return found;
}

/// The table with this header line: the header, its rule and its rows.
std::string table_with(const std::string& markdown, const std::string& head) {
  const std::size_t begin = markdown.find(head + "\n");
  if (begin == std::string::npos) return "no table with the head " + head;
  const std::size_t end = markdown.find("\n\n", begin);
  return markdown.substr(begin, end == std::string::npos ? end : end - begin + 1);
}

TEST(Markdown, ExactFiguresComeFirstThenThePublishedMethod) {
  const std::string markdown = render_markdown(sample_run(), sample_sweep());
  EXPECT_THAT(
      headings(markdown),
      ElementsAre("# Benchmark Sweep: KV Cache Routing vs Round-Robin", "## Verdict", "## Test Methodology",
                  "## Deployment Details", "## Results", "### Errors", "### Output tokens per second",
                  "### Turns per second", "### TPOT: time per output token, the mean of each request",
                  "### ITL: gaps between tokens, pooled", "### Latency: from sending to the end of the answer",
                  "## Summary", "## The published method", "### Results, published method", "### Error Rates",
                  "### Throughput (Output Tokens/s)", "### TPOT -- Time Per Output Token (ITL)",
                  "### End-to-End Latency", "## Reference Data (JSON)", "## Exact percentiles over all samples",
                  "### TTFT (ms)", "### TPOT (ms)", "### ITL, all token gaps (ms)",
                  "### ITL, mean of each request (ms)", "### Latency (ms)", "### Rates over the measuring window",
                  "## Workers", "### Routing", "## By turn and by prompt length", "### By turn of the conversation",
                  "### By tokens of the prompt", "## Hit rate check: client against workers",
                  "## Load generator health", "## Remarks"));
  EXPECT_THAT(markdown, HasSubstr("\n**Generated:** 2026-03-01 10:20:30 UTC\n"));
}

// The header lines and rules below are those of the published two-mode document.
TEST(Markdown, TwoModesHaveThePublishedTables) {
  std::string markdown = render_markdown(sample_run(), sample_sweep());
  markdown.erase(0, markdown.find("## The published method"));
  EXPECT_EQ(table_with(markdown,
                       "| Concurrency | RR TTFT p50 | KV TTFT p50 | p50 Improvement | RR TTFT p95 | KV TTFT "
                       "p95 | p95 Improvement | RR Hit Rate | KV Hit Rate |"),
            "| Concurrency | RR TTFT p50 | KV TTFT p50 | p50 Improvement | RR TTFT p95 | KV TTFT p95 | p95 Improvement "
            "| RR Hit Rate | KV Hit Rate |\n"
            "|:-----------:|:-----------:|:-----------:|:---------------:|:-----------:|:-----------:|:---------------:"
            "|:-----------:|:-----------:|\n"
            "| 40 | 250ms | 200ms | 20.0% | 650ms | 650ms | 0.0% | 60.0% | 90.0% |\n"
            "| 50 | 300ms | 310ms | -3.3% | 650ms | 650ms | 0.0% | 60.0% | 90.0% |\n");
  EXPECT_EQ(table_with(markdown, "| Concurrency | RR Error % | KV Error % |"),
            "| Concurrency | RR Error % | KV Error % |\n"
            "|:-----------:|:----------:|:----------:|\n"
            "| 40 | 0.0% | 0.0% |\n"
            "| 50 | 0.0% | 0.0% |\n");
  EXPECT_EQ(table_with(markdown, "| Concurrency | RR TOPS | KV TOPS |"),
            "| Concurrency | RR TOPS | KV TOPS |\n"
            "|:-----------:|:-------:|:-------:|\n"
            "| 40 | 1550.0 | 1550.0 |\n"
            "| 50 | 1550.0 | 1550.0 |\n");
  EXPECT_EQ(table_with(markdown, "| Concurrency | RR TPOT p50 | KV TPOT p50 | RR TPOT p95 | KV TPOT p95 |"),
            "| Concurrency | RR TPOT p50 | KV TPOT p50 | RR TPOT p95 | KV TPOT p95 |\n"
            "|:-----------:|:-----------:|:-----------:|:-----------:|:-----------:|\n"
            "| 40 | 26ms | 26ms | 28ms | 28ms |\n"
            "| 50 | 26ms | 26ms | 28ms | 28ms |\n");
  EXPECT_EQ(table_with(markdown, "| Concurrency | RR Latency p50 | KV Latency p50 | RR Latency p95 | KV Latency p95 |"),
            "| Concurrency | RR Latency p50 | KV Latency p50 | RR Latency p95 | KV Latency p95 |\n"
            "|:-----------:|:--------------:|:--------------:|:--------------:|:--------------:|\n"
            "| 40 | 21808ms | 21808ms | 28452ms | 28452ms |\n"
            "| 50 | 21808ms | 21808ms | 28452ms | 28452ms |\n");
  EXPECT_THAT(render_markdown(sample_run(), sample_sweep()),
              HasSubstr("| Parameter | Value |\n|:----------|:------|\n| Model | kvist-timed |\n"));
}

TEST(Markdown, TheMethodIsPrintedAsItWas) {
  spec::SweepSpec sweep = sample_sweep();
  sweep.levels = {40, 50, 60};
  const std::string markdown = render_markdown(sample_run(), sweep);
  EXPECT_THAT(markdown,
              HasSubstr("- **Routing modes:** Round-robin (baseline) vs KV cache-aware\n"
                        "- **Concurrency levels:** 40, 50 (planned but not measured: 60)\n"
                        "- **Arrivals:** closed; at most 10 conversation starts per second\n"
                        "- **Warmup:** 5s per level\n"
                        "- **Measurement:** 30s per level: every turn sent within it counts; 2 snapshots @ 15s for the "
                        "published method\n"
                        "- **Workload:** Multi-turn chat (3-5 turns per conversation)\n"
                        "- **Metric source:** `loadgen_ttft_all_seconds` Prometheus Summary (6s window, "
                        "client-side TTFT) for the published method\n"
                        "- **Time scale:** 1 ("));
  EXPECT_THAT(markdown, Not(HasSubstr("model time")));
}

TEST(Markdown, OfATargetThatRanAlreadyNobodyKnowsTheTimeScale) {
  spec::SweepSpec sweep = sample_sweep();
  sweep.target.url = "http://10.0.0.1:8000";
  sweep.deployment.workers.clear();
  const std::string markdown = render_markdown(sample_run(), sweep);
  EXPECT_THAT(markdown, HasSubstr("- **Time:** wall-clock as measured, the target's engines at their own speed\n"));
  EXPECT_THAT(markdown, Not(HasSubstr("Time scale")));
}

TEST(Markdown, TheMethodOfAReplayNamesItsTrace) {
  spec::SweepSpec sweep = sample_sweep();
  sweep.workload.trace = {.file = "/data/chat.jsonl", .loop = spec::TraceLoop::kOpen, .speed = 2};
  const std::string open = render_markdown(sample_run(), sweep);
  EXPECT_THAT(open, HasSubstr("- **Arrivals:** open loop: requests at their recorded instants, 2 times as fast"));
  EXPECT_THAT(open, HasSubstr("- **Workload:** Replay of chat.jsonl: 10 requests sent per level; those that followed"));
  EXPECT_THAT(open, HasSubstr("- **Texts:** made up in the recorded lengths"));
  EXPECT_THAT(open, Not(HasSubstr("Multi-turn chat")));
  EXPECT_THAT(open, Not(HasSubstr("conversation starts per second")));
  sweep.workload.trace.loop = spec::TraceLoop::kClosed;
  EXPECT_THAT(render_markdown(sample_run(), sweep),
              HasSubstr("- **Arrivals:** closed loop: requests in their recorded"));
}

TEST(Markdown, LawsAndFixedRepliesArePartOfTheMethod) {
  spec::SweepSpec sweep = sample_sweep();
  sweep.workload.turns_min = 1;
  sweep.workload.turns_max = 20;
  sweep.workload.turns_law = {.kind = spec::CountLawKind::kGeometric, .mean = 4};
  sweep.workload.max_tokens_min = 1;
  sweep.workload.max_tokens = 400;
  sweep.workload.answer_law = {.kind = spec::CountLawKind::kLognormal, .mean = 60, .deviation = 30};
  sweep.workload.replies = spec::Replies::kRecorded;
  const std::string markdown = render_markdown(sample_run(), sweep);
  EXPECT_THAT(markdown, HasSubstr("Multi-turn chat (geometric:4:1-20 turns per conversation)"));
  EXPECT_THAT(markdown, HasSubstr("answers limited to lognormal:60/30:1-400 tokens"));
  EXPECT_THAT(markdown, HasSubstr("seeded texts stand in the history in place of the replies"));
  EXPECT_THAT(markdown, Not(HasSubstr("replies stay in the history")));
}

TEST(Markdown, ScaledEnginesGetATableInModelTime) {
  spec::SweepSpec sweep = sample_sweep();
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.time_scale = 10;
  const std::string markdown = render_markdown(sample_run(), sweep);
  EXPECT_THAT(markdown, HasSubstr("The workers' engines ran 10 times faster than their model of time says; all figures "
                                  "are wall-clock as measured"));
  EXPECT_THAT(markdown, HasSubstr("Warm-up, snapshot interval and window are 50s, 150s and 60s of model time."));
  EXPECT_THAT(markdown,
              HasSubstr("### In model time (measured x 10)\n\n"
                        "| Concurrency | RR TTFT p50 | KV TTFT p50 | RR TTFT p95 | KV TTFT p95 | RR TPOT p50 "
                        "| KV TPOT p50 | RR TPOT p95 | KV TPOT p95 | RR ITL p95 | KV ITL p95 | RR Latency p50 "
                        "| KV Latency p50 | RR Latency p95 | KV Latency p95 |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 40 | 2450ms | 1450ms | 2855ms | 1855ms | 300ms | 300ms | 300ms | 300ms | 400ms | "
                                  "400ms | 3.35s | 2.35s | 3.75s | 2.75s |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 40 | 245ms | 145ms | 40.8% |"));  // the main table stays as measured
}

TEST(Markdown, TheSummaryIsComputed) {
  const std::string markdown = render_markdown(sample_run(), sample_sweep());
  EXPECT_THAT(
      markdown,
      HasSubstr(
          "## Summary\n\n"
          "- **Gain in TTFT p50 at lowest concurrency (40):** 40.8%\n"
          "- **Gain in TTFT p50 at highest concurrency (50):** 40.8%\n"
          "- **Trend:** The gain in TTFT p50 **stays about the same** at higher concurrency (40.8% at 40 -> 40.8% at "
          "50).\n"
          "- **Peak benefit:** Concurrency 40 shows the largest gain in TTFT p50, 40.8%.\n"
          "- **KV cache hit rate (KV mode):** 90.0% (at 40) to 90.0% (at 40), average 90.0%.\n"
          "- **KV cache hit rate (RR mode):** 60.0% (at 40) to 60.0% (at 40), average 60.0%.\n"
          "- **Prefilled tokens:** RR 8,000, KV 2,000 over 2 levels (75.0% fewer).\n"));
}

TEST(Markdown, OwnSectionsShowExactFiguresAndTheHitRateCheck) {
  const std::string markdown = render_markdown(sample_run(), sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("### TTFT (ms)\n\n"
                                  "| Concurrency | Mode | Samples | Mean | p50 | p90 | p95 | p99 | Max |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 40 | RR | 10 | 245.00 | 245.00 | 281.00 | 285.50 | 289.10 | 290.00 |\n"
                                  "| 40 | KV | 10 | 145.00 | 145.00 | 181.00 | 185.50 | 189.10 | 190.00 |\n"));
  EXPECT_THAT(markdown,
              HasSubstr("| 40 | KV | worker-0 | 5 (50.0%) | 50.0% | 2.5 | 0 | 3 | 0 | 0 | n/a | 500 | 20 |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 40 | KV | 1.00 | 1,000 | 9,100 | 9,000 | 10.0 |\n"));
  EXPECT_THAT(
      markdown,
      HasSubstr("| 40 | KV | 9,000 / 10,000 | 90.0% | 90.0% | 9,000 / 10,000 | 90.0% | +0.00 points | yes |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 40 | KV | - | - | - | 0.20ms | 1.00ms | 0.10 | 0.30ms | valid |\n"));
  EXPECT_THAT(markdown, HasSubstr("Every published figure above is the mean over all 2 snapshots."));
  EXPECT_THAT(markdown, HasSubstr("## Remarks\n\nNone.\n"));
}

TEST(Markdown, MissingFiguresAreDashesAndExcludedLevelsSaySo) {
  results::RunRecord run = sample_run();
  run.levels.pop_back();  // KV at 50
  for (workload::Snapshot& snapshot : run.levels[0].snapshots) snapshot.ttft_p50_ms.reset();
  run.levels[2].turns[0].outcome = workload::TurnOutcome::kFailed;  // RR at 50: 10 % errors
  run.levels[0].workers[0].evictions.reset();
  run.levels[2].remarks = {"worker-1 | <restarted> *twice*\n# no heading"};
  const std::string markdown = render_markdown(run, sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("| 40 | - | 200ms | - | 650ms | 650ms | 0.0% | 60.0% | 90.0% |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 50 | 300ms | - | - | 650ms | - | - | 60.0% | - |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 50 | 10.0% (excluded) | - |\n"));
  EXPECT_THAT(markdown, HasSubstr("| 40 | RR | worker-0 | 5 (50.0%) | 50.0% | 2.5 | 0 | - | 0 | 0 | n/a |"));
  EXPECT_THAT(markdown, HasSubstr("**Excluded** for more than 5.0% errors, and left out of gains and the summary: "
                                  "RR at 50 (10.0% errors).\n"));
  EXPECT_THAT(markdown, HasSubstr("- RR at 40: TTFT from 0, TPOT from 2, latency from 2 of 2 planned snapshots\n"));
  EXPECT_THAT(markdown,
              HasSubstr("- **Trend:** fewer than two levels to compare.\n- **Peak benefit:** Concurrency 40 shows"));
  EXPECT_THAT(markdown, HasSubstr("- **RR at 50:** worker-1 | &lt;restarted> \\*twice\\* # no heading\n"));
}

// The header lines and rules below are those of the published single-mode document.
TEST(Markdown, OneModeHasThePublishedSingleModeLayout) {
  results::RunRecord run = sample_run();
  run.levels = {run.levels[1], run.levels[3]};
  spec::SweepSpec sweep = sample_sweep();
  sweep.modes = {spec::RoutingMode::kKv};
  const std::string markdown = render_markdown(run, sweep);
  const std::vector<std::string> found = headings(markdown);
  EXPECT_THAT(found, IsSupersetOf({"## TTFT: time to first token", "## ITL: gaps between tokens, pooled"}));
  const auto published = std::ranges::find(found, "## The published method");
  ASSERT_GE(std::distance(published, found.end()), 8);
  EXPECT_THAT(std::vector<std::string>(published, published + 8),
              ElementsAre("## The published method", "### TPOT -- Time Per Output Token (ITL)",
                          "### TTFT -- Time to First Token", "### End-to-End Latency", "### Error Rates",
                          "### Actual RPS (Conversation Starts/s)", "### Throughput (Output Tokens/s)",
                          "## Reference Data (JSON)"));
  EXPECT_THAT(markdown, HasSubstr("- **Routing mode:** KV-aware\n"));
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | TPOT p50 | TPOT p95 | Error % |\n"
                                  "|:-----------:|:--------:|:--------:|:-------:|\n"
                                  "| 40 | 26ms | 28ms | 0.0% |\n"));
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | TTFT p50 | TTFT p95 |\n"
                                  "|:-----------:|:--------:|:--------:|\n"
                                  "| 40 | 200ms | 650ms |\n"));
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | Latency p50 | Latency p95 |\n"
                                  "|:-----------:|:-----------:|:-----------:|\n"
                                  "| 40 | 21.8s | 28.5s |\n"));
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | Error % |\n|:-----------:|:-------:|\n| 40 | 0.0% |\n"));
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | Actual RPS |\n|:-----------:|:----------:|\n| 40 | 4.11 |\n"));
  EXPECT_THAT(markdown, HasSubstr("| Concurrency | TOPS |\n|:-----------:|:----:|\n| 40 | 1550.0 |\n"));
}

TEST(Markdown, MoreThanTwoModesRepeatTheSingleModeLayout) {
  results::RunRecord run = sample_run();
  run.levels.push_back(sample_level(spec::RoutingMode::kRandom, 40, 280));
  const std::string markdown = render_markdown(run, sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("# Benchmark Sweep: 3 Routing Modes, Concurrency Scaling (40-50)\n"));
  EXPECT_THAT(markdown, HasSubstr("# Benchmark Sweep: Round-robin Concurrency Scaling (40-50)\n"));
  EXPECT_THAT(markdown, HasSubstr("# Benchmark Sweep: Random Concurrency Scaling (40-50)\n"));
  EXPECT_THAT(markdown, Not(HasSubstr("## Summary")));
}

TEST(Markdown, ARunWithoutLevelsIsAReportToo) {
  results::RunRecord run = sample_run();
  run.levels.clear();
  const std::string markdown = render_markdown(run, sample_sweep());
  EXPECT_THAT(markdown, HasSubstr("(planned but not measured: 40, 50)"));
  EXPECT_THAT(render_html(run, sample_sweep()), HasSubstr("</html>"));
  EXPECT_THAT(render_json(run, sample_sweep()), HasSubstr("\"levels\": []"));
  EXPECT_EQ(render_terminal(run, sample_sweep()), "No level was measured.\n");
}

}  // namespace
}  // namespace kvist::report::markdown_test

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/client_text.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/load_agents.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

/// The hit rates of client and workers agree if they differ by at most this, in percentage points.
constexpr double kHitRateTolerancePoints = 1;

/// A table whose rows begin with concurrency and mode.
render::Table table_with(std::initializer_list<const char*> titles) {
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}};
  for (const char* title : titles) table.columns.push_back({title});
  return table;
}

std::vector<std::string> row_of(const analysis::MeasuredLevel& level) {
  return {fmt::format("{}", level.analysis.concurrency), analysis::short_name(level.analysis.mode)};
}

void add_cells(std::vector<std::string>& row, std::initializer_list<std::string> cells) {
  row.insert(row.end(), cells.begin(), cells.end());
}

/// Columns of one distribution; the percentiles that have intervals with these.
struct DistributionColumns {
  Distribution analysis::ExactFigures::* metric;
  std::optional<analysis::Headline> p50, p95, p99;
};

void add_distribution(render::Document& document, const analysis::RunAnalysis& analysis, const char* heading,
                      const DistributionColumns& columns) {
  render::Table table = table_with({"Samples", "Mean", "p50", "p90", "p95", "p99", "Max"});
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const Distribution& d = level.analysis.exact.*columns.metric;
    const auto cell = [&](double Distribution::* figure, std::optional<analysis::Headline> which) {
      analysis::Estimate estimate{.value = render::figure_of(d, figure), .interval = {}};
      if (which) estimate.interval = analysis::estimate_of(level, analysis::headline(*which)).interval;
      return estimate_cell(estimate, 2, "");
    };
    std::vector<std::string> row = row_of(level);
    add_cells(row, {render::format_count(d.count), cell(&Distribution::mean, {}), cell(&Distribution::p50, columns.p50),
                    cell(&Distribution::p90, {}), cell(&Distribution::p95, columns.p95),
                    cell(&Distribution::p99, columns.p99), cell(&Distribution::max, {})});
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{3, heading});
  document.push_back(std::move(table));
}

void add_rates(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table table = table_with({"Window", "Output tokens/s", "Turns/s", "Conversation starts/s", "Succeeded",
                                    "Failed", "Abandoned", "All turns of the level"});
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const analysis::LevelAnalysis& a = level.analysis;
    std::vector<std::string> row = row_of(level);
    add_cells(row,
              {render::format_fixed(a.exact.window_s, 1) + "s", render::format_fixed(a.exact.output_tokens_per_s, 1),
               render::format_fixed(a.exact.turns_per_s, 2), render::format_fixed(a.exact.conversation_starts_per_s, 2),
               render::format_count(a.window_turns.succeeded), render::format_count(a.window_turns.failed),
               render::format_count(a.window_turns.abandoned),
               render::format_count(a.all_turns.succeeded + a.all_turns.failed + a.all_turns.abandoned)});
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{3, "Rates over the measuring window"});
  document.push_back(
      render::Paragraph{{{"A turn's tokens count at the instants its chunks arrived; turns count when they ended, "
                          "conversations when their first turn was sent. Succeeded, failed and abandoned are the "
                          "turns sent within the window."}}});
  document.push_back(std::move(table));
}

/// Lists, per level, the published figures that rest on fewer snapshots than were taken.
void add_snapshot_counts(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Bullets bullets;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const analysis::PublishedFigures& p = level.analysis.published;
    const std::size_t planned = analysis.sweep().method.snapshots * level.counted();
    const std::size_t with_value = std::min(
        {p.ttft_p50_ms.snapshots, p.tpot_p50_ms.snapshots, p.latency_p50_ms.snapshots, level.record.snapshots.size()});
    if (with_value == planned) continue;
    bullets.items.push_back(
        {{fmt::format("{} at {}: TTFT from {}, TPOT from {}, latency from {} of {} planned snapshots",
                      analysis::short_name(level.analysis.mode), level.analysis.concurrency, p.ttft_p50_ms.snapshots,
                      p.tpot_p50_ms.snapshots, p.latency_p50_ms.snapshots, planned)}});
  }
  if (bullets.items.empty()) {
    document.push_back(render::Paragraph{
        {{fmt::format("Every published figure above is the mean over all {} snapshots{}.",
                      analysis.sweep().method.snapshots, analysis.repeated() ? " of each repetition" : "")}}});
    return;
  }
  document.push_back(render::Paragraph{{{"Snapshots without a value are left out of the published means:"}}});
  document.push_back(std::move(bullets));
}

std::string acceptance_cell(const std::optional<double>& rate) {
  return rate ? render::format_pct(*rate * 100) : "n/a";
}

std::string turns_cell(const analysis::LevelAnalysis& analysis, const std::string& worker) {
  for (const analysis::WorkerShare& share : analysis.worker_shares) {
    if (share.worker == worker) return fmt::format("{} ({})", share.turns, render::format_pct(share.share * 100));
  }
  return std::string(render::kMissing);
}

void add_routing(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table table = table_with({"Busiest / mean worker", "Prefilled tokens", "Predicted cached tokens",
                                    "Cached tokens (usage)", "Mean absolute error per turn"});
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const analysis::LevelAnalysis& a = level.analysis;
    const bool predicted = a.predicted.turns > 0;
    const auto count_if_predicted = [&](std::uint64_t tokens) {
      return render::format_count(predicted ? std::optional(tokens) : std::nullopt);
    };
    std::vector<std::string> row = row_of(level);
    add_cells(row, {render::format_fixed(a.imbalance, 2), render::format_count(a.prefilled_tokens),
                    count_if_predicted(a.predicted.predicted_tokens), count_if_predicted(a.predicted.cached_tokens),
                    render::format_fixed(a.predicted.mean_absolute_error_tokens, 1)});
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{3, "Routing"});
  document.push_back(
      render::Paragraph{{{"Busiest / mean worker: turns of the busiest worker over the mean of all; 1.00 is even. "
                          "Predicted is what the gateway said before each request, usage what the worker said "
                          "after it, over successful turns with a prediction."}}});
  document.push_back(std::move(table));
}

/// Nothing if the process that measured drove all levels itself.
void add_agents(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table table = table_with(
      {"Agent", "Threads", "Turns", "Clock", "Own part of TTFT", "Own part of ITL", "Read after", "Verdict"});
  for (const std::size_t text : {2UL, 5UL, 9UL}) table.columns[text].align = render::Align::kLeft;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    for (const results::LoadAgent& agent : level.record.agents) {
      const results::ClientHealth& c = agent.client;
      std::vector<std::string> row = row_of(level);
      add_cells(row,
                {agent.name, render::format_count(agent.threads), render::format_count(agent.turns), clock_text(agent),
                 shares_text(c, results::BoundedFigure::kTtftP50), shares_text(c, results::BoundedFigure::kItlP50),
                 c.certificate ? render::format_fixed(c.certificate->receive_delay_p99_ms, 2) + "ms" : "-",
                 verdict_text(verdict_on(agent, level.analysis.exact))});
      table.rows.push_back(std::move(row));
    }
  }
  if (table.rows.empty()) return;
  document.push_back(render::Heading{3, "Agents"});
  document.push_back(render::Paragraph{
      {{"Each level's load was driven by these agents, each a part of the conversations. Clock: how far an agent's was "
        "from the coordinator's before the load and what it gained until its end; instants are corrected by that, "
        "latencies need no correction. A verdict is on the agent's own turns; that of the level is the worst."}}});
  document.push_back(std::move(table));
}

}  // namespace

void add_exact_percentiles(render::Document& document, const analysis::RunAnalysis& analysis) {
  document.push_back(render::Heading{2, "Exact percentiles over all samples"});
  document.push_back(render::Paragraph{
      {{"Over all successful turns sent within the measuring window (end of the warm-up to the last snapshot), "
        "also those that ended after it; linear interpolation between the nearest ranks; milliseconds, with the "
        "95 % interval in parentheses. No window, no average of percentiles."}}});
  add_snapshot_counts(document, analysis);
  using analysis::Headline;
  using E = analysis::ExactFigures;
  add_distribution(document, analysis, "TTFT (ms)",
                   {&E::ttft_ms, Headline::kTtftP50, Headline::kTtftP95, Headline::kTtftP99});
  add_distribution(document, analysis, "TPOT (ms)", {&E::tpot_ms, Headline::kTpotP50, Headline::kTpotP95, {}});
  add_distribution(document, analysis, "ITL, all token gaps (ms)",
                   {&E::itl_ms, Headline::kItlP50, Headline::kItlP95, Headline::kItlP99});
  add_distribution(document, analysis, "ITL, mean of each request (ms)", {&E::itl_request_mean_ms, {}, {}, {}});
  add_distribution(document, analysis, "Latency (ms)",
                   {&E::latency_ms, Headline::kLatencyP50, Headline::kLatencyP95, {}});
  if (spec::has_schedule(analysis.sweep().workload)) {
    add_distribution(document, analysis, "TTFT from the schedule (ms)",
                     {&E::ttft_from_schedule_ms, Headline::kTtftFromScheduleP50, Headline::kTtftFromScheduleP95,
                      Headline::kTtftFromScheduleP99});
    add_distribution(
        document, analysis, "Latency from the schedule (ms)",
        {&E::latency_from_schedule_ms, Headline::kLatencyFromScheduleP50, Headline::kLatencyFromScheduleP95, {}});
  }
  add_rates(document, analysis);
}

void add_workers(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table table =
      table_with({"Worker", "Turns", "KV use max", "Running mean", "Waiting max", "Evictions", "Preemptions",
                  "Restarts", "Acceptance rate", "Prefilled tokens", "Generated tokens"});
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    for (const results::WorkerLevelRecord& w : level.record.workers) {
      std::vector<std::string> row = row_of(level);
      add_cells(row, {w.worker, turns_cell(level.analysis, w.worker), render::format_pct(w.kv_usage_max * 100),
                      render::format_fixed(w.running_mean, 1), render::format_fixed(w.waiting_max, 0),
                      w.evictions ? render::format_count(*w.evictions) : std::string(render::kMissing),
                      render::format_count(w.preemptions), render::format_count(w.restarts),
                      acceptance_cell(w.acceptance_rate), render::format_count(w.prefilled_tokens),
                      render::format_count(w.generated_tokens)});
      table.rows.push_back(std::move(row));
    }
  }
  document.push_back(render::Heading{2, "Workers"});
  document.push_back(
      render::Paragraph{{{"Differences of each worker's own counters between the idle moments before and after a "
                          "level; KV use, running and waiting over the snapshots. The acceptance rate of draft "
                          "tokens is n/a without speculation."}}});
  document.push_back(std::move(table));
  add_routing(document, analysis);
}

void add_hit_rate_check(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table table = table_with({"Client: cached / prompt tokens", "Client", "Mean of turns",
                                    "Workers: hits / queried tokens", "Workers", "Difference", "Within 1 point"});
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const analysis::HitRate& h = level.analysis.hit_rate;
    std::string difference(render::kMissing);
    std::string agree(render::kMissing);
    if (h.difference_points) {
      difference = fmt::format("{:+.2f} points", *h.difference_points);
      agree = std::abs(*h.difference_points) <= kHitRateTolerancePoints ? "yes" : "no";
    }
    std::vector<std::string> row = row_of(level);
    add_cells(row, {render::format_count(h.client_cached_tokens) + " / " + render::format_count(h.client_prompt_tokens),
                    render::format_pct(h.client_pct), render::format_pct(h.turn_mean_pct),
                    render::format_count(h.worker_hit_tokens) + " / " + render::format_count(h.worker_query_tokens),
                    render::format_pct(h.workers_pct), difference, agree});
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{2, "Hit rate check: client against workers"});
  document.push_back(render::Paragraph{
      {{"The client sums usage over all successful turns of the level, warm-up and drain "
        "included; the mean of turns is that of each one's own share, in which short prompts weigh more; the "
        "workers count every request they admitted, failed and abandoned ones too."}}});
  document.push_back(std::move(table));
}

void add_load_generator(render::Document& document, const analysis::RunAnalysis& analysis) {
  if (analysis.run().simulated) {
    document.push_back(render::Heading{2, "Load generator health"});
    document.push_back(render::Paragraph{{{"Nothing to measure: a simulated client takes no time and no processor."}}});
    return;
  }
  render::Table table = table_with({"Own part of TTFT", "Own part of ITL", "Read after", "Loop delay p99",
                                    "Loop delay max", "CPU share", "Send delay p99", "Verdict"});
  table.columns.back().align = render::Align::kLeft;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const results::ClientHealth& c = level.record.client;
    const analysis::ClientVerdict& verdict = level.analysis.client;
    std::vector<std::string> row = row_of(level);
    add_cells(row, {shares_text(c, results::BoundedFigure::kTtftP50), shares_text(c, results::BoundedFigure::kItlP50),
                    c.certificate ? render::format_fixed(c.certificate->receive_delay_p99_ms, 2) + "ms" : "-",
                    render::format_fixed(c.loop_delay_p99_ms, 2) + "ms",
                    render::format_fixed(c.loop_delay_max_ms, 2) + "ms", render::format_fixed(c.cpu_share, 2),
                    render::format_fixed(c.send_delay_p99_ms, 2) + "ms", verdict_text(verdict)});
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{2, "Load generator health"});
  document.push_back(render::Paragraph{{{fmt::format(
      "Whether the load generator disturbed its own measurement. Its own part of p50, p95 and p99 is a bound: what it "
      "read late (by the system's stamps of packets; p99 as \"Read after\"), or may have. Degraded: a part above "
      "{:.0f} "
      "ms and {:.0f} % of the figure; turns begun late by {:.0f} ms or {:.0f} % of the TTFT p95 at p99; more than "
      "{:.0f} % of the processors' time taken by a hypervisor in pauses that were not measured (those that were are in "
      "the part). Invalid: a part above {:.0f} ms and {:.0f} % of the "
      "figure. Without such bounds (-, an older file), degraded: loop delay p99 or send delay p99 (sent minus "
      "intended) "
      "above {:.0f} ms or {:.0f} % of the TTFT p95, or a CPU share above {:.2f} of one core.",
      analysis::kMaxClientShareMs, 100 * analysis::kMaxClientShareOfFigure, analysis::kMaxClientDelayMs,
      100 * analysis::kMaxClientDelayShareOfTtft, 100 * analysis::kMaxStealShare, analysis::kInvalidClientShareMs,
      100 * analysis::kInvalidClientShareOfFigure, analysis::kMaxClientDelayMs,
      100 * analysis::kMaxClientDelayShareOfTtft, analysis::kMaxClientCpuShare)}}});
  document.push_back(std::move(table));
  add_agents(document, analysis);
}

void add_remarks(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Bullets bullets;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    for (const std::string& remark : level.record.remarks) {
      bullets.items.push_back({render::strong(fmt::format("{} at {}:", analysis::short_name(level.analysis.mode),
                                                          level.analysis.concurrency)),
                               {" " + remark}});
    }
  }
  document.push_back(render::Heading{2, "Remarks"});
  if (bullets.items.empty()) {
    document.push_back(render::Paragraph{{{"None."}}});
  } else {
    document.push_back(std::move(bullets));
  }
}

}  // namespace kvist::report

#include "kvist/report/load_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/render/figures.h"
#include "kvist/render/table.h"
#include "kvist/report/arrival_text.h"
#include "kvist/report/client_text.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/load_agents.h"

namespace kvist::report {
namespace {

using analysis::Headline;

std::string count(std::uint64_t n) {
  return render::format_count(n);
}

std::string rate(std::optional<double> value, int decimals) {
  if (!value || *value < 1'000) return render::format_fixed(value, decimals);
  return render::format_count(static_cast<std::uint64_t>(std::llround(*value)));
}

std::string turns_line(const LoadFigures& figures) {
  const LoadTotals& t = figures.totals;
  return fmt::format("turns    {} succeeded, {} failed, {} abandoned, sent within {:.1f} s\n", t.succeeded, t.failed,
                     t.abandoned, figures.window_s);
}

/// " (the target sends no usage: one token per chunk)"; empty: it sends it with each answer.
std::string usage_note(const LoadRun& run, const LoadTotals& totals) {
  if (totals.without_usage == 0) return {};
  const char* const counted = run.tokenizer_sha256.empty() ? "one token per chunk" : "by the tokenizer";
  if (totals.without_usage == totals.succeeded) return fmt::format(" (the target sends no usage: {})", counted);
  return fmt::format(" ({} of {} answers have no usage: {})", count(totals.without_usage), count(totals.succeeded),
                     counted);
}

std::string rates_line(const LoadRun& run, const LoadFigures& figures) {
  return fmt::format("rates    {} turns/s, {} conversation starts/s, {} output tokens/s{}\n",
                     rate(figures.exact().turns_per_s, 2), rate(figures.exact().conversation_starts_per_s, 2),
                     rate(figures.output_tokens_per_s, 1), usage_note(run, figures.totals));
}

std::string cache_line(const LoadFigures& figures) {
  const LoadTotals& t = figures.totals;
  if (t.without_usage > 0 && t.prompt_tokens > 0) {
    return fmt::format("cache    -: {} of {} answers do not say how many prompt tokens there were\n",
                       count(t.without_usage), count(t.succeeded));
  }
  if (t.prompt_tokens == 0) return "cache    -: the target does not say how many prompt tokens it had\n";
  if (!t.knows_cached()) {
    return "cache    -: the target does not say how many prompt tokens were cached (vLLM: "
           "--enable-prompt-tokens-details)\n";
  }
  return fmt::format(
      "cache    {} of {} prompt tokens\n",
      render::format_pct(100.0 * static_cast<double>(t.cached_tokens) / static_cast<double>(t.prompt_tokens)),
      count(t.prompt_tokens));
}

/// The percentiles that are computed of each measure; nothing: without an interval.
struct Row {
  const char* title;
  const Distribution* distribution;
  std::optional<Headline> p50, p95, p99;
};

std::vector<std::string> row_cells(const LoadFigures& figures, const Row& row) {
  const Distribution& d = *row.distribution;
  std::vector<analysis::Estimate> estimates;
  for (const auto& [figure, which] : {std::pair{&Distribution::p50, row.p50}, std::pair{&Distribution::p95, row.p95},
                                      std::pair{&Distribution::p99, row.p99}}) {
    analysis::Estimate estimate{.value = render::figure_of(d, figure), .interval = {}};
    if (which) estimate.interval = figures.estimate(*which).interval;
    estimates.push_back(estimate);
  }
  estimates.push_back({.value = render::figure_of(d, &Distribution::max), .interval = {}});
  const int decimals = decimals_of(estimates);
  std::vector<std::string> cells = {row.title};
  for (const analysis::Estimate& estimate : estimates) cells.push_back(estimate_cell(estimate, decimals, ""));
  cells.push_back(count(d.count));
  return cells;
}

std::string percentiles(const LoadRun& run, const LoadFigures& figures) {
  const analysis::ExactFigures& exact = figures.exact();
  std::vector<Row> rows = {
      {"TTFT", &exact.ttft_ms, Headline::kTtftP50, Headline::kTtftP95, Headline::kTtftP99},
      {"TPOT (mean of a request)", &exact.tpot_ms, Headline::kTpotP50, Headline::kTpotP95, {}},
      {"ITL (gaps, pooled)", &exact.itl_ms, Headline::kItlP50, Headline::kItlP95, Headline::kItlP99},
      {"latency", &exact.latency_ms, Headline::kLatencyP50, Headline::kLatencyP95, {}}};
  if (analysis::schedule_of(run.workload) == analysis::Schedule::kOpen) {
    rows.push_back({"TTFT from the schedule", &exact.ttft_from_schedule_ms, Headline::kTtftFromScheduleP50,
                    Headline::kTtftFromScheduleP95, Headline::kTtftFromScheduleP99});
    rows.push_back({"latency from the schedule",
                    &exact.latency_from_schedule_ms,
                    Headline::kLatencyFromScheduleP50,
                    Headline::kLatencyFromScheduleP95,
                    {}});
  }
  render::Table table;
  table.columns = {{"milliseconds", render::Align::kLeft}, {"p50"}, {"p95"}, {"p99"}, {"max"}, {"n"}};
  for (const Row& row : rows) table.rows.push_back(row_cells(figures, row));
  return render::render_text_table(table) +
         "Exact percentiles; in parentheses the 95 % interval over conversations and time.\n";
}

std::string first_error(const LoadRun& run) {
  const auto failed =
      std::ranges::find(run.level.turns, workload::TurnOutcome::kFailed, &workload::TurnSample::outcome);
  return failed == run.level.turns.end() ? std::string() : "first error: " + failed->error + "\n";
}

}  // namespace

std::string load_summary(const LoadRun& run, const LoadFigures& figures) {
  std::string text = turns_line(figures) + rates_line(run, figures) + cache_line(figures) + percentiles(run, figures);
  if (figures.arrivals) text += "arrivals " + arrival_text(*figures.arrivals) + "\n";
  text += "client   " + client_text(run.level.client, figures.level.analysis.client) + "\n";
  text += agents_text(run.level.agents, figures.exact());
  for (const std::string& remark : run.level.remarks) text += "remark   " + remark + "\n";
  text += first_error(run);
  text.pop_back();  // the caller ends the line
  return text;
}

std::string progress_line(const LoadProgress& progress) {
  const workload::Snapshot& w = progress.window;
  const auto ms = [](const std::optional<double>& value) {
    return render::format_fixed(value, value && *value >= 100 ? 0 : 1);
  };
  return fmt::format(
      "{:>5.0f}s  {} in flight, {} done, {} failed, {} turns/s, {} tokens/s, TTFT p50 {} p95 {} ms, ITL p50 {} p95 {} "
      "ms",
      to_seconds(progress.elapsed), w.in_flight, count(progress.succeeded), count(progress.failed),
      rate(w.turns_per_s, 1), rate(w.output_tokens_per_s, 0), ms(w.ttft_p50_ms), ms(w.ttft_p95_ms),
      ms(progress.itl_p50_ms), ms(progress.itl_p95_ms));
}

}  // namespace kvist::report

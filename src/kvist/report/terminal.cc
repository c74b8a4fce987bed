#include "kvist/report/terminal.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "kvist/analysis/comparison.h"
#include "kvist/analysis/headline.h"
#include "kvist/render/figures.h"
#include "kvist/render/table.h"
#include "kvist/report/estimate_text.h"

namespace kvist::report {
namespace {

/// Where turns have a schedule, TTFT is also counted from that.
std::vector<analysis::Headline> columns_of(const analysis::RunAnalysis& analysis) {
  using enum analysis::Headline;
  if (!spec::has_schedule(analysis.sweep().workload)) {
    return {kTtftP50, kTtftP95, kTpotP50, kItlP95, kThroughput, kHitRatePct};
  }
  return {kTtftP50,    kTtftFromScheduleP50,    kTtftP95, kTtftFromScheduleP95, kTpotP50,
          kLatencyP95, kLatencyFromScheduleP95, kItlP95,  kThroughput,          kHitRatePct};
}

std::string mode_cell(const analysis::RunAnalysis& analysis, const analysis::MeasuredLevel& level) {
  std::string cell(spec::to_string(level.analysis.mode));
  if (level.analysis.excluded) cell += " (excluded)";
  if (client_degraded(analysis, level)) {
    cell += fmt::format(" (client {})", analysis::to_string(level.analysis.client.grade));
  }
  return cell;
}

std::string gain_in(const analysis::RunAnalysis& analysis, const analysis::MeasuredLevel& level,
                    analysis::Headline figure) {
  const analysis::MeasuredLevel* baseline = analysis.find(analysis.modes().front(), level.analysis.concurrency);
  if (level.analysis.mode == analysis.modes().front()) return {};
  return gain_cell(analysis::gain_of(baseline, &level, analysis::headline(figure)));
}

}  // namespace

std::string terminal_table(const analysis::RunAnalysis& analysis) {
  if (analysis.levels().empty()) return "No level was measured.\n";
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}};
  std::uint32_t last = 0;
  bool degraded = false;
  std::vector<const analysis::MeasuredLevel*> levels;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const bool first = levels.empty() || level.analysis.concurrency != last;
    last = level.analysis.concurrency;
    levels.push_back(&level);
    table.rows.push_back({first ? fmt::format("{}", last) : "", mode_cell(analysis, level)});
    degraded = degraded || client_degraded(analysis, level);
  }
  const auto add_column = [&table](std::string_view title, const std::vector<std::string>& cells) {
    table.columns.push_back({std::string(title)});
    for (std::size_t i = 0; i < cells.size(); ++i) table.rows[i].push_back(cells[i]);
  };
  for (const analysis::Headline which : columns_of(analysis)) {
    const analysis::HeadlineFigure& figure = analysis::headline(which);
    add_column(figure.title, headline_cells(levels, figure));
  }
  for (const auto& [title, figure] :
       {std::pair{"p50 gain", analysis::Headline::kTtftP50}, std::pair{"p95 gain", analysis::Headline::kTtftP95}}) {
    std::vector<std::string> cells;
    for (const analysis::MeasuredLevel* level : levels) cells.push_back(gain_in(analysis, *level, figure));
    add_column(title, cells);
  }
  std::string out = render::render_text_table(table);
  out += "Exact percentiles over all turns (95 % interval).\n";
  if (analysis.run().simulated) out += "Simulated in virtual time.\n";
  if (analysis.repeated()) out += "Means over repetitions.\n";
  const std::optional<double> scale = analysis.time_scale();
  if (scale && *scale != 1.0) {
    out += fmt::format("Times as measured, engines {0} times faster than their model: x {0} for model time.\n",
                       render::format_plain(*scale));
  }
  for (const std::string& refused : analysis::refusals(analysis)) out += "Not compared: " + refused + ".\n";
  if (degraded)
    out +=
        "The load generator disturbed its measurement at some levels: see \"Load generator health\" in the report.\n";
  return out;
}

}  // namespace kvist::report

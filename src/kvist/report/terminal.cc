#include "kvist/report/terminal.h"

#include <fmt/format.h>

#include <array>

#include "kvist/analysis/level_figures.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/render/figures.h"
#include "kvist/render/table.h"

namespace kvist::report {
namespace {

constexpr std::array kColumns = {analysis::Metric::kTtftP50, analysis::Metric::kTtftP95, analysis::Metric::kTpotP50,
                                 analysis::Metric::kThroughput, analysis::Metric::kHitRatePct};

std::vector<std::string> row_of(const analysis::RunAnalysis& analysis, const analysis::MeasuredLevel& level,
                                bool first_of_level) {
  const analysis::LevelAnalysis& a = level.analysis;
  const analysis::MeasuredLevel* baseline = analysis.find(analysis.modes().front(), a.concurrency);
  const bool is_baseline = a.mode == analysis.modes().front();
  const auto improvement = [&](analysis::LevelFigure figure) {
    return is_baseline ? "" : render::format_pct(analysis::improvement_pct(baseline, &level, figure));
  };
  std::vector<std::string> row = {first_of_level ? fmt::format("{}", a.concurrency) : "",
                                  fmt::format("{}{}", spec::to_string(a.mode), a.excluded ? " (excluded)" : "")};
  for (const analysis::Metric metric : kColumns) {
    const analysis::NamedFigure& named = analysis::figure_of(metric);
    row.push_back(named.format(named.figure(a)));
  }
  row.push_back(render::format_count(a.prefilled_tokens));
  row.push_back(improvement(analysis::figure::ttft_p50_ms));
  row.push_back(improvement(analysis::figure::ttft_p95_ms));
  return row;
}

}  // namespace

std::string terminal_table(const analysis::RunAnalysis& analysis) {
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}};
  for (const analysis::Metric metric : kColumns)
    table.columns.push_back({std::string(analysis::figure_of(metric).terminal_title)});
  for (const char* title : {"Prefilled", "p50 improvement", "p95 improvement"}) table.columns.push_back({title});
  std::uint32_t last = 0;
  bool degraded = false;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const bool first = table.rows.empty() || level.analysis.concurrency != last;
    table.rows.push_back(row_of(analysis, level, first));
    last = level.analysis.concurrency;
    degraded = degraded || (!analysis.run().simulated && !level.analysis.client.ok());
  }
  if (table.rows.empty()) return "No level was measured.\n";
  std::string out = render::render_text_table(table);
  if (analysis.run().simulated) out += "Simulated in virtual time.\n";
  if (analysis.repeated()) out += "Means over repetitions; tokens are sums.\n";
  const std::optional<double> scale = analysis.time_scale();
  if (scale && *scale != 1.0) {
    out += fmt::format("Times as measured, engines {0} times faster than their model: x {0} for model time.\n",
                       render::format_plain(*scale));
  }
  if (degraded) out += "The load generator was degraded at some levels: see \"Load generator health\" in the report.\n";
  return out;
}

}  // namespace kvist::report

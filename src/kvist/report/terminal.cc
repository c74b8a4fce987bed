#include "kvist/report/terminal.h"

#include <fmt/format.h>

#include "kvist/report/figures.h"
#include "kvist/report/level_figures.h"
#include "kvist/report/mode_names.h"
#include "kvist/report/table.h"

namespace kvist::report {
namespace {

std::vector<std::string> row_of(const RunAnalysis& analysis, const MeasuredLevel& level, bool first_of_level) {
  const LevelAnalysis& a = level.analysis;
  const MeasuredLevel* baseline = analysis.find(analysis.modes().front(), a.concurrency);
  const bool is_baseline = a.mode == analysis.modes().front();
  return {first_of_level ? fmt::format("{}", a.concurrency) : "",
          fmt::format("{}{}", spec::to_string(a.mode), a.excluded ? " (excluded)" : ""),
          format_ms(figure::ttft_p50_ms(a)),
          format_ms(figure::ttft_p95_ms(a)),
          format_ms(figure::tpot_p50_ms(a)),
          format_fixed(figure::tops(a), 1),
          format_pct(figure::kv_hit_rate_pct(a)),
          format_count(a.prefilled_tokens),
          is_baseline ? "" : format_pct(improvement_pct(baseline, &level, figure::ttft_p50_ms)),
          is_baseline ? "" : format_pct(improvement_pct(baseline, &level, figure::ttft_p95_ms))};
}

}  // namespace

std::string terminal_table(const RunAnalysis& analysis) {
  Table table;
  table.columns = {{"Concurrency"}, {"Mode", Align::kLeft}, {"TTFT p50"},  {"TTFT p95"},        {"TPOT p50"},
                   {"Tokens/s"},    {"Hit rate"},           {"Prefilled"}, {"p50 improvement"}, {"p95 improvement"}};
  std::uint32_t last = 0;
  bool degraded = false;
  for (const MeasuredLevel& level : analysis.levels()) {
    const bool first = table.rows.empty() || level.analysis.concurrency != last;
    table.rows.push_back(row_of(analysis, level, first));
    last = level.analysis.concurrency;
    degraded = degraded || (!analysis.run().simulated && !level.analysis.client.ok());
  }
  if (table.rows.empty()) return "No level was measured.\n";
  std::string out = render_text_table(table);
  if (analysis.run().simulated) out += "Simulated in virtual time.\n";
  if (analysis.repeated()) out += "Means over repetitions; tokens are sums.\n";
  const std::optional<double> scale = analysis.time_scale();
  if (scale && *scale != 1.0) {
    out += fmt::format("Times as measured, engines {0} times faster than their model: x {0} for model time.\n",
                       format_plain(*scale));
  }
  if (degraded) out += "The load generator was degraded at some levels: see \"Load generator health\" in the report.\n";
  return out;
}

}  // namespace kvist::report

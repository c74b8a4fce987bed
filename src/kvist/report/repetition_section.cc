#include <fmt/format.h>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

/// "28.58ms ± 2.19ms (26.44ms to 30.81ms)": mean and extremes with the digits that the deviation has.
std::string spread_cell(const analysis::MeasuredLevel& level, const analysis::HeadlineFigure& named) {
  const std::optional<analysis::Spread> spread = level.spread(named.figure);
  if (!spread) return std::string(render::kMissing);
  const double mean = spread->mean * named.factor;
  const double deviation = spread->standard_deviation * named.factor;
  const analysis::Estimate estimate{.value = mean,
                                    .interval = Interval{.low = mean - deviation, .high = mean + deviation}};
  const int decimals = named.unit == "%" ? 1 : decimals_of({&estimate, 1});
  const auto text = [&](double value) {
    return estimate_cell({.value = value, .interval = {}}, decimals, unit_suffix(named));
  };
  return fmt::format("{} ± {} ({} to {})", text(mean), text(deviation), text(spread->min * named.factor),
                     text(spread->max * named.factor));
}

}  // namespace

void add_repetitions(render::Document& document, const analysis::RunAnalysis& analysis) {
  if (!analysis.repeated()) return;
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}, {"Valid"}};
  std::vector<analysis::HeadlineFigure> figures;
  for (std::size_t i = 0; i < analysis::kHeadlines; ++i) {
    const auto which = static_cast<analysis::Headline>(i);
    if (!spec::missing_for(which, analysis.sweep())) figures.push_back(analysis::headline(which));
  }
  for (const analysis::HeadlineFigure& named : figures) table.columns.push_back({std::string(named.title)});
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    std::vector<std::string> row = {fmt::format("{}", level.analysis.concurrency),
                                    analysis::short_name(level.analysis.mode),
                                    fmt::format("{}/{}", level.counted(), level.repetitions.size())};
    for (const analysis::HeadlineFigure& named : figures) row.push_back(spread_cell(level, named));
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{2, "Spread over repetitions"});
  document.push_back(render::Paragraph{{{fmt::format(
      "Each level was measured several times, each time with another seed. Tables and plots show the mean "
      "over the repetitions with its interval, tables of turns and tokens their sum. Repetitions with more "
      "than {} errors are left out (\"Valid\": those that count, of all), unless all have that many. "
      "Below: mean ± standard deviation (smallest to largest).",
      render::format_pct(analysis.sweep().method.max_error_pct))}}});
  document.push_back(std::move(table));
}

}  // namespace kvist::report

#include <fmt/format.h>

#include "kvist/report/figures.h"
#include "kvist/report/mode_names.h"
#include "kvist/report/named_figures.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

/// "223ms ± 4.20ms (217ms to 231ms)".
std::string spread_cell(const MeasuredLevel& level, const NamedFigure& named) {
  const std::optional<Spread> spread = level.spread(named.figure);
  if (!spread) return std::string(kMissing);
  return fmt::format("{} ± {} ({} to {})", named.format(spread->mean), named.format(spread->standard_deviation),
                     named.format(spread->min), named.format(spread->max));
}

}  // namespace

void add_repetitions(Document& document, const RunAnalysis& analysis) {
  if (!analysis.repeated()) return;
  Table table;
  table.columns = {{"Concurrency"}, {"Mode", Align::kLeft}, {"Valid"}};
  for (const NamedFigure& named : published_figures()) table.columns.push_back({std::string(named.title)});
  for (const MeasuredLevel& level : analysis.levels()) {
    std::vector<std::string> row = {fmt::format("{}", level.analysis.concurrency), short_name(level.analysis.mode),
                                    fmt::format("{}/{}", level.counted(), level.repetitions.size())};
    for (const NamedFigure& named : published_figures()) row.push_back(spread_cell(level, named));
    table.rows.push_back(std::move(row));
  }
  document.push_back(Heading{2, "Spread over repetitions"});
  document.push_back(Paragraph{
      {{fmt::format("Each level was measured several times, each time with another seed. Tables show the mean over the "
                    "repetitions ± their standard deviation, plots a band from the smallest to the largest, counts of "
                    "turns and tokens the sum. Repetitions with more than {} errors are left out (\"Valid\": those "
                    "that count, of all), unless all have that many. Below: mean ± standard deviation (smallest to "
                    "largest).",
                    format_pct(analysis.sweep().method.max_error_pct))}}});
  document.push_back(std::move(table));
}

}  // namespace kvist::report

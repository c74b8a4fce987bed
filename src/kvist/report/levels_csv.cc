#include "kvist/report/levels_csv.h"

#include <fmt/format.h>

#include <optional>

#include "kvist/analysis/headline.h"
#include "kvist/spec/sweep.h"

namespace kvist::report {

std::string levels_csv(const analysis::RunAnalysis& analysis) {
  std::string csv = "mode,concurrency,repetitions,excluded";
  for (const analysis::HeadlineFigure& figure : analysis::headline_figures())
    csv += fmt::format(",{0},{0}_low,{0}_high", figure.key);
  csv += "\n";
  const auto cell = [](const std::optional<double>& value) {
    return value ? fmt::format(",{:.6g}", *value) : std::string(",");
  };
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    csv += fmt::format("{},{},{},{}", spec::to_string(level.record.mode), level.record.concurrency,
                       level.repetitions.size(), level.analysis.excluded);
    for (const analysis::HeadlineFigure& figure : analysis::headline_figures()) {
      const analysis::Estimate estimate = analysis::estimate_of(level, figure);
      csv += cell(estimate.value);
      csv += cell(estimate.interval ? std::optional(estimate.interval->low) : std::nullopt);
      csv += cell(estimate.interval ? std::optional(estimate.interval->high) : std::nullopt);
    }
    csv += "\n";
  }
  return csv;
}

}  // namespace kvist::report

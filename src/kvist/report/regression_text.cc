#include "kvist/report/regression_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/render/figures.h"
#include "kvist/render/table.h"
#include "kvist/report/estimate_text.h"

namespace kvist::report {
namespace {

using analysis::FigureRegression;
using analysis::RegressionVerdict;

std::string verdict_text(const FigureRegression& result) {
  switch (result.verdict) {
    case RegressionVerdict::kFine:
      return result.before.value ? "no change beyond chance or tolerance" : "was not known before";
    case RegressionVerdict::kBetter:
      return "better";
    case RegressionVerdict::kWorse:
      return "WORSE";
    case RegressionVerdict::kUnknown:
      return "UNKNOWN: " + result.reason;
  }
  return {};
}

std::string change_text(const FigureRegression& result) {
  if (!result.change) return std::string(render::kMissing);
  return fmt::format("{:+.1f}{}", *result.change, analysis::headline(result.figure).is_percentage() ? " points" : "%");
}

std::size_t count(const std::vector<FigureRegression>& results, RegressionVerdict verdict) {
  return static_cast<std::size_t>(std::ranges::count(results, verdict, &FigureRegression::verdict));
}

}  // namespace

std::string regression_text(const std::vector<FigureRegression>& results,
                            const analysis::RegressionTolerance& tolerance) {
  render::Table table;
  table.columns = {
      {"Level", render::Align::kLeft},  {"Figure", render::Align::kLeft}, {"Before"}, {"After"}, {"Change"},
      {"Verdict", render::Align::kLeft}};
  for (const FigureRegression& result : results) {
    const analysis::HeadlineFigure& figure = analysis::headline(result.figure);
    const std::vector both = {printed(result.before, figure), printed(result.after, figure)};
    const int decimals = figure.unit == "%" ? 1 : decimals_of(both);
    table.rows.push_back(
        {result.level, std::string(figure.title), estimate_cell(both[0], decimals, unit_suffix(figure)),
         estimate_cell(both[1], decimals, unit_suffix(figure)), change_text(result), verdict_text(result)});
  }
  return render::render_text_table(table) +
         fmt::format(
             "{} worse by more than {}% (hit rate: points; errors: {} points) and beyond their intervals, {} better, "
             "{} unknown.",
             count(results, RegressionVerdict::kWorse), render::format_plain(tolerance.figures_pct),
             render::format_plain(tolerance.error_points), count(results, RegressionVerdict::kBetter),
             count(results, RegressionVerdict::kUnknown));
}

}  // namespace kvist::report

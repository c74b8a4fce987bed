// Estimates as cells of a table: as many digits as are known, the same number in a whole column.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/run_analysis.h"

namespace kvist::report {

/// The decimals for all estimates of a column, in the unit in which they are printed. The narrowest interval decides:
/// its half-width has two digits if they begin with 1 or 2, otherwise one. Without intervals three digits of the
/// smallest value. At most two.
[[nodiscard]] int decimals_of(std::span<const analysis::Estimate> column);

/// "9.49ms (9.31 to 9.66)"; "9.49ms" without an interval, "-" without a value. `value` is in the printed unit.
[[nodiscard]] std::string estimate_cell(const analysis::Estimate& value, int decimals, std::string_view unit);

/// A gain in percent: "20.0% (12.1 to 27.5)".
[[nodiscard]] std::string gain_cell(const analysis::Estimate& gain);

/// In the unit in which the figure is printed.
[[nodiscard]] analysis::Estimate printed(const analysis::Estimate& estimate, const analysis::HeadlineFigure& figure);

/// The text behind a figure: "ms", "s", "%"; rates have theirs in the title.
[[nodiscard]] std::string_view unit_suffix(const analysis::HeadlineFigure& figure);

/// The cells of one figure over several levels, with the same decimals in all; a null level is "-". `factor` multiplies
/// what is printed (model time).
[[nodiscard]] std::vector<std::string> headline_cells(std::span<const analysis::MeasuredLevel* const> levels,
                                                      const analysis::HeadlineFigure& figure, double factor = 1);

/// "24", or "24 (client degraded: KV)" where the load generator disturbed its measurement.
[[nodiscard]] std::string level_label(const analysis::RunAnalysis& analysis, std::uint32_t concurrency);
/// Whether the level's load generator was live and not ok.
[[nodiscard]] bool client_degraded(const analysis::RunAnalysis& analysis, const analysis::MeasuredLevel& level);

}  // namespace kvist::report

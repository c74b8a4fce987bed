#include "kvist/report/estimate_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"

namespace kvist::report {
namespace {

/// Of a figure of 0.000123 and an interval of nothing there are this many.
constexpr int kMostDecimals = 6;
/// Digits that a figure has at most; two decimals it may have in any case.
constexpr int kMostDigits = 4;

/// The decimals with which `half_width` has two digits if they begin with 1 or 2, otherwise one.
int decimals_for(double half_width) {
  return static_cast<int>(std::floor(-std::log10(half_width / 3))) + 1;
}

/// The decimals with which `value` has so many digits.
int decimals_for_digits(double value, int digits) {
  return digits - 1 - static_cast<int>(std::floor(std::log10(value)));
}

int decimals_for_value(double value) {
  constexpr int kDigits = 3;
  return std::isfinite(value) ? std::min(decimals_for_digits(value, kDigits), kMostDigits) : 0;
}

std::string number(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  const bool is_zero = text.find_first_not_of("-0.") == std::string::npos;
  if (is_zero && text.starts_with('-')) text.erase(0, 1);
  return text;
}

std::string bounds(const std::optional<Interval>& interval, int decimals) {
  if (!interval) return {};
  return fmt::format(" ({} to {})", number(interval->low, decimals), number(interval->high, decimals));
}

}  // namespace

int decimals_of(std::span<const analysis::Estimate> column) {
  double narrowest = std::numeric_limits<double>::infinity();
  double smallest = std::numeric_limits<double>::infinity();
  for (const analysis::Estimate& estimate : column) {
    const double size = estimate.value && std::isfinite(*estimate.value) ? std::abs(*estimate.value) : 0;
    if (size > 0) smallest = std::min(smallest, size);  // of 0, as of a level that failed, there are no digits to show
    if (!estimate.interval) continue;
    const double half = (estimate.interval->high - estimate.interval->low) / 2;
    if (half > 0) narrowest = std::min(narrowest, half);
  }
  const int decimals = std::isfinite(narrowest) ? decimals_for(narrowest) : decimals_for_value(smallest);
  // Seconds need more decimals than milliseconds for the same digits.
  const int most = std::isfinite(smallest) ? std::max(2, decimals_for_digits(smallest, kMostDigits)) : 2;
  return std::clamp(decimals, 0, std::min(most, kMostDecimals));
}

std::string estimate_cell(const analysis::Estimate& value, int decimals, std::string_view unit) {
  if (!value.value || !std::isfinite(*value.value)) return std::string(render::kMissing);
  return number(*value.value, decimals) + std::string(unit) + bounds(value.interval, decimals);
}

std::string gain_cell(const analysis::Estimate& gain) {
  return estimate_cell(gain, 1, "%");
}

analysis::Estimate printed(const analysis::Estimate& estimate, const analysis::HeadlineFigure& figure) {
  analysis::Estimate scaled = estimate;
  if (scaled.value) *scaled.value *= figure.factor;
  if (scaled.interval) {
    scaled.interval->low *= figure.factor;
    scaled.interval->high *= figure.factor;
  }
  return scaled;
}

std::string_view unit_suffix(const analysis::HeadlineFigure& figure) {
  return figure.unit.ends_with("/s") ? std::string_view() : figure.unit;
}

std::vector<std::string> headline_cells(std::span<const analysis::MeasuredLevel* const> levels,
                                        const analysis::HeadlineFigure& figure, double factor) {
  analysis::HeadlineFigure scaled = figure;
  scaled.factor *= factor;
  std::vector<analysis::Estimate> column;
  for (const analysis::MeasuredLevel* level : levels) {
    column.push_back(level == nullptr ? analysis::Estimate{} : printed(analysis::estimate_of(*level, figure), scaled));
  }
  const bool is_share = figure.unit == "%";
  const int decimals = is_share ? 1 : decimals_of(column);
  std::vector<std::string> cells;
  for (const analysis::Estimate& estimate : column) {
    cells.push_back(estimate_cell(estimate, decimals, unit_suffix(figure)));
  }
  return cells;
}

bool client_degraded(const analysis::RunAnalysis& analysis, const analysis::MeasuredLevel& level) {
  return !analysis.run().simulated && !level.analysis.client.ok();
}

std::string level_label(const analysis::RunAnalysis& analysis, std::uint32_t concurrency) {
  std::string marks;
  for (const analysis::ClientGrade grade : {analysis::ClientGrade::kInvalid, analysis::ClientGrade::kDegraded}) {
    std::string modes;
    for (const spec::Arm& mode : analysis.modes()) {
      const analysis::MeasuredLevel* level = analysis.find(mode, concurrency);
      const bool of_grade =
          level != nullptr && client_degraded(analysis, *level) && level->analysis.client.grade == grade;
      if (of_grade) modes += (modes.empty() ? "" : ", ") + analysis::short_name(mode);
    }
    if (modes.empty()) continue;
    if (analysis.modes().size() == 1) return fmt::format("{} (client {})", concurrency, analysis::to_string(grade));
    marks += fmt::format("{}client {}: {}", marks.empty() ? "" : "; ", analysis::to_string(grade), modes);
  }
  return marks.empty() ? fmt::format("{}", concurrency) : fmt::format("{} ({})", concurrency, marks);
}

}  // namespace kvist::report

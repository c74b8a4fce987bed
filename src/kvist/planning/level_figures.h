// The figures of a level that plans and fits use, by name.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "kvist/analysis/level_analysis.h"
#include "kvist/analysis/named_figures.h"

namespace kvist::planning {

using analysis::kMetrics;
using analysis::Metric;

/// One value per metric; nothing if a level does not have the figure (no turn ended in any window).
class LevelFigures {
 public:
  [[nodiscard]] std::optional<double>& operator[](Metric metric) { return values_[static_cast<std::size_t>(metric)]; }
  [[nodiscard]] const std::optional<double>& operator[](Metric metric) const {
    return values_[static_cast<std::size_t>(metric)];
  }
  bool operator==(const LevelFigures&) const = default;

 private:
  std::array<std::optional<double>, kMetrics.size()> values_ = {};
};

/// The figures of a level's analysis.
[[nodiscard]] LevelFigures figures_of(const analysis::LevelAnalysis& analysis);

}  // namespace kvist::planning

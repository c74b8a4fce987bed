// The figures of a level that plans and fits use, by name.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/level_analysis.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

using analysis::Headline;
using analysis::kMetrics;
using analysis::Metric;

/// Two values each where a figure has two definitions: the exact one, by which plans judge, and that of the published
/// method, which fits compare with published figures. Nothing if a level does not have the figure (no turn ended).
class LevelFigures {
 public:
  [[nodiscard]] std::optional<double>& operator[](Metric metric) {
    return published_[static_cast<std::size_t>(metric)];
  }
  [[nodiscard]] const std::optional<double>& operator[](Metric metric) const {
    return published_[static_cast<std::size_t>(metric)];
  }
  [[nodiscard]] std::optional<double>& operator[](Headline figure) { return exact_[static_cast<std::size_t>(figure)]; }
  [[nodiscard]] const std::optional<double>& operator[](Headline figure) const {
    return exact_[static_cast<std::size_t>(figure)];
  }
  bool operator==(const LevelFigures&) const = default;

 private:
  std::array<std::optional<double>, kMetrics.size()> published_ = {};
  std::array<std::optional<double>, analysis::kHeadlines> exact_ = {};
};

/// The figures of a level's analysis.
[[nodiscard]] LevelFigures figures_of(const analysis::LevelAnalysis& analysis);

/// The figures by which a plan judges a level: those of its analysis, but with what they leave out counted as errors:
///  - open arrivals that found no place (max_conversations), and so were never sent or more than a second late: a limit
///    would make any rate look served;
///  - turns that had not ended when the drain was over: the percentiles are of those that ended.
[[nodiscard]] LevelFigures judged_figures(const results::LevelRecord& level, const spec::SweepSpec& sweep);

}  // namespace kvist::planning

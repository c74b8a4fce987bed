// The figures that head every table, plot and console line: exact over all samples, each with its interval.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "kvist/analysis/exact_percentiles.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/analysis/repetitions.h"
#include "kvist/base/cluster_bootstrap.h"
#include "kvist/spec/figure_keys.h"

namespace kvist::analysis {

/// A figure and its 95 % interval, both in the figure's unit.
struct Estimate {
  std::optional<double> value;       ///< nothing: unknown
  std::optional<Interval> interval;  ///< nothing: not known, because there are too few samples, or not computed
};

/// One figure. Percentiles are over all successful turns sent within the measuring window, rates over what happened
/// within it, hit and error rates counted.
struct HeadlineFigure {
  std::string_view key;    ///< "ttft_p50_ms": one of spec::kFigureKeys
  std::string_view title;  ///< "TTFT p50"
  std::string_view unit;   ///< as printed: "ms", "s", "%", "tokens/s", "turns/s"
  double factor = 1;       ///< from the computed figure to the printed one
  LevelFigure figure = nullptr;
  std::optional<ExactPercentile> percentile = {};  ///< nothing: a single measurement has no interval
  std::optional<Metric> published = {};            ///< the same figure by the published method
  bool larger_is_better = false;                   ///< rates and shares of what one wants

  [[nodiscard]] bool is_percentage() const { return unit == "%"; }
};

using spec::Headline;
inline constexpr std::size_t kHeadlines = spec::kFigures;

/// All, in the order of the enumeration.
[[nodiscard]] const std::array<HeadlineFigure, kHeadlines>& headline_figures();
[[nodiscard]] const HeadlineFigure& headline(Headline which);

/// A level's figure, not scaled by `factor`. With one or two repetitions the interval is that of the bootstrap over
/// conversations and time; with three or more it is Student's t over their values, which includes what differs from run
/// to run. Repetitions of the same requests have that of the bootstrap, however many they are.
[[nodiscard]] Estimate estimate_of(const MeasuredLevel& level, const HeadlineFigure& figure);

/// By how many percent a figure of `candidate` is below that of `baseline`: positive is better for times. Value and
/// interval are those of the pairs, which are repetitions with one seed that count in both: so a sweep that was
/// interrupted, or a repetition with too many errors, does not set other conversations beside each other. Nothing
/// without a pair, if either is missing or excluded, or if something speaks against comparing them
/// (objections_to_level).
[[nodiscard]] Estimate gain_of(const MeasuredLevel* baseline, const MeasuredLevel* candidate,
                               const HeadlineFigure& figure);

}  // namespace kvist::analysis

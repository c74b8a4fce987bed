// Fitting the coefficients of a profile to measured levels.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/least_squares.h"
#include "kvist/planning/level_evaluator.h"
#include "kvist/planning/measurements.h"

namespace kvist::planning {

/// A parameter that a fit may change.
struct FreeParameter {
  std::string name;  ///< "launch.fixed"
  std::string unit;
  double start = 0;
  double low = 0;
  double high = 0;
};

/// The sweep with values for the free parameters, in their order.
using ApplyParameters = std::function<spec::SweepSpec(const spec::SweepSpec&, const std::vector<double>&)>;

struct FitProblem {
  spec::SweepSpec sweep;
  std::vector<FreeParameter> parameters;
  ApplyParameters apply;
  FitSplit levels;
};

struct FitOptions {
  std::uint32_t seeds = 4;  ///< per level; the same at every point, to reduce the noise of differences
  unsigned threads = 0;     ///< 0: one per core; only affects the time
  /// Points of the scan before the search, with one seed each, spread over half to twice each value; the search begins
  /// at the best. The scan is needed because a coefficient whose mechanism has no effect at the starting point (a floor
  /// below the rest of the step) has no slope to follow there.
  std::uint32_t scan_points = 60;
  LeastSquaresOptions search = {.max_rounds = 12, .least_gain = 0.01, .progress = {}};
};

/// The deviation that counts 1 in the objective, as a share: about the scatter between sweeps of one system
/// (docs/guide/fitting.md). Nothing: the metric is not fitted.
[[nodiscard]] std::optional<double> tolerance_of(Metric metric);

/// A level as measured, and as computed before and after the fit.
struct LevelComparison {
  MeasuredFigures measured;
  bool held_out = false;
  LevelFigures before;
  LevelFigures after;
};

struct FittedParameter {
  FreeParameter parameter;
  double value = 0;
  double standard_error = 0;  ///< infinite if no figure depends on it
  bool at_bound = false;
  std::string tied_to;     ///< the parameter its estimate is most correlated with; empty below 0.9
  double correlation = 0;  ///< the correlation with that parameter

  /// Whether the data determine the value to within 10 %, 50 %, or not.
  enum class Determined { kWell, kRoughly, kNot };
  [[nodiscard]] Determined determined() const;
};

struct FitResult {
  std::vector<FittedParameter> parameters;
  std::vector<LevelComparison> levels;  ///< fitted, then held out
  double objective_before =
      0;  ///< over the fitted levels; computed, like the comparisons, with seeds that the search did not use
  double objective_after = 0;
  std::uint32_t rounds = 0;
  std::uint64_t levels_simulated = 0;
};

/// Mean absolute relative deviation of a metric from the measured one, in percent, over the levels that have both.
struct MetricError {
  std::size_t levels = 0;
  double before_pct = 0;
  double after_pct = 0;
};
[[nodiscard]] MetricError error_of(const FitResult& result, Metric metric, bool held_out);

/// Minimises the mean squared deviation, in tolerances, over the fitted levels. Held-out levels are computed before and
/// after, never in between. Errors: no parameter, fewer figures than parameters, a parameter named twice or outside its
/// bounds, the evaluator's errors.
[[nodiscard]] Result<FitResult> fit(const LevelEvaluator& evaluator, const FitProblem& problem,
                                    const FitOptions& options);

}  // namespace kvist::planning

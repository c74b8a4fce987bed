// Nonlinear least squares within bounds, for functions that are expensive, noisy at a small scale and without
// derivatives.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::planning {

struct Variable {
  double start = 0;
  double low = 0;
  double high = 0;  ///< low <= start <= high
};

/// The residuals at each of several points; all points have equally many. Several points are passed at once so that
/// they can be computed in parallel.
using BatchResiduals =
    std::function<Result<std::vector<std::vector<double>>>(const std::vector<std::vector<double>>& points)>;

/// 0 if there is none.
[[nodiscard]] double mean_square(const std::vector<double>& values);

struct LeastSquaresOptions {
  std::uint32_t max_rounds = 15;
  /// The width of differences, as a share of a variable's value; up to eight times as much for a variable whose
  /// influence is otherwise below the noise.
  double first_step = 0.05;
  /// The search ends when nothing is gained with differences this small. Moves of less than half of it are not tried,
  /// because with noise they only draw the noise again.
  double last_step = 0.01;
  double least_gain = 1e-3;  ///< a round that gains a smaller share of the objective counts as no gain
  /// Called after each round with its number, from 1, and the objective; may be empty.
  std::function<void(std::uint32_t round, double objective)> progress = {};
};

struct LeastSquaresResult {
  std::vector<double> values;
  double start_objective = 0;  ///< mean of the squared residuals
  double objective = 0;
  std::uint32_t rounds = 0;
  std::uint64_t points = 0;  ///< evaluated points
  double noise = 0;  ///< root mean square of the change of a residual after a change of the variables that is far too
                     ///< small to matter
  /// The standard error of each variable if the residuals scatter independently; infinite if no residual depends on it.
  /// Linearised at the result.
  std::vector<double> standard_errors;
  /// The correlations of the estimates of two variables. Near +1 or -1 the data determine only a combination of both.
  std::vector<std::vector<double>> correlations;
};

/// Levenberg's and Marquardt's method with finite differences; four dampings are tried at once. The noise is measured
/// first, by a change far too small to matter. A variable at a bound stays there as long as its gradient points
/// outwards. Deterministic. Requires: at least one variable and as many residuals as variables.
[[nodiscard]] Result<LeastSquaresResult> least_squares(const std::vector<Variable>& variables,
                                                       const BatchResiduals& residuals,
                                                       const LeastSquaresOptions& options);

}  // namespace kvist::planning

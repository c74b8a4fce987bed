// Nonlinear least squares within bounds, for functions that are dear, noisy at a small scale and without derivatives.
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

/// The residuals at each of several points; all points have equally many. Several are asked at once so that they can be
/// computed in parallel.
using BatchResiduals =
    std::function<Result<std::vector<std::vector<double>>>(const std::vector<std::vector<double>>& points)>;

struct LeastSquaresOptions {
  std::uint32_t max_rounds = 15;
  /// Of the differences, as a share of a variable's value; up to eight times as much for a variable whose influence
  /// does not stand out of the noise otherwise.
  double first_step = 0.05;
  /// Ends when nothing is gained with differences this small. Moves of less than half of it are not tried: with noise,
  /// they only draw it again.
  double last_step = 0.01;
  double least_gain = 1e-3;  ///< a round that gains less of the objective brings nothing
  /// Told the number of each finished round, from 1, and the objective after it; empty: nobody.
  std::function<void(std::uint32_t round, double objective)> progress = {};
};

struct LeastSquaresResult {
  std::vector<double> values;
  double start_objective = 0;  ///< mean of the squared residuals
  double objective = 0;
  std::uint32_t rounds = 0;
  std::uint64_t points = 0;  ///< asked for
  double noise = 0;          ///< root mean square of what a change far too small to matter does to a residual
  /// How well the residuals determine each variable: the standard error if they scattered independently; infinite where
  /// no residual depends on it. Linearised at the result.
  std::vector<double> standard_errors;
  /// Of the estimates of two variables: near +1 or -1 the data determine only a combination of both.
  std::vector<std::vector<double>> correlations;
};

/// Levenberg's and Marquardt's method with finite differences; four dampings are tried at once. The noise is measured
/// first, by a change far too small to matter. A variable at a bound
/// stays there as long as its gradient points outwards. Deterministic. Requires at least one variable and as many
/// residuals as variables.
[[nodiscard]] Result<LeastSquaresResult> least_squares(const std::vector<Variable>& variables,
                                                       const BatchResiduals& residuals,
                                                       const LeastSquaresOptions& options);

}  // namespace kvist::planning

// Exact statistics over all samples, without sketches or averages of percentiles.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvist {

/// The q-quantile (0 <= q <= 1) of samples sorted in ascending order, by linear interpolation between the two nearest
/// ranks (type 7 of Hyndman and Fan, the default of NumPy). Requires: a non-empty span.
[[nodiscard]] double quantile_of_sorted(std::span<const double> sorted, double q);

/// The figures of one metric in a report. All are in the unit of the samples, and zero if `count` is 0.
struct Distribution {
  std::size_t count = 0;
  double mean = 0;
  double standard_deviation = 0;  ///< of the sample (n - 1); 0 if count < 2
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
};

/// Summarises all samples, in any order.
[[nodiscard]] Distribution describe(std::vector<double> samples);

}  // namespace kvist

// Two arms measured with the same seeds: what changed between them, and how sure that is.
#pragma once

#include <cstddef>
#include <limits>
#include <span>

namespace kvist::analysis {

/// Whether an arm did better than another on one figure.
enum class PairedVerdict {
  kBetter,  ///< the interval lies wholly on the better side of "no change"
  kEqual,   ///< it holds "no change"
  kWorse,   ///< wholly on the worse side
  kOpen,    ///< fewer than two pairs: nothing can be said
};

/// The two-sided confidence of an interval; a change that is none comes out as worse in half of the rest, 1 of 40.
inline constexpr double kPairedConfidence = 0.95;

/// A change from a baseline over pairs of one seed each, with its interval. One pair alone has an infinite one.
struct PairedChange {
  std::size_t pairs = 0;
  double estimate = 0;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

/// How many times the baseline the candidate is: Student's t on the logarithms of the pairs' ratios, taken back to
/// ratios, so that the estimate is their geometric mean and twice as long weighs as much as half as long. "No change"
/// is 1. Requires as many candidates as baselines, at least one, all above 0.
[[nodiscard]] PairedChange paired_ratio(std::span<const double> baseline, std::span<const double> candidate);

/// How much the candidate is above the baseline: Student's t on the pairs' differences; for percentages, which may be
/// 0. "No change" is 0. Requires as many candidates as baselines, at least one.
[[nodiscard]] PairedChange paired_difference(std::span<const double> baseline, std::span<const double> candidate);

/// `no_change`: 1 for a ratio, 0 for a difference.
[[nodiscard]] PairedVerdict verdict_of(const PairedChange& change, double no_change, bool less_is_better);

}  // namespace kvist::analysis

// Compares two arms that were measured with the same seeds: the change between them, with its confidence interval.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace kvist::analysis {

/// Whether an arm is better than another in one figure.
enum class PairedVerdict {
  kBetter,   ///< the interval lies wholly on the better side of "no change"
  kEqual,    ///< the interval contains "no change"
  kWorse,    ///< it lies wholly on the worse side
  kOpen,     ///< fewer than two pairs: nothing can be said
  kRefused,  ///< they are no pairs: something speaks against comparing them
};

/// The two-sided confidence of an interval. Without a real change the verdict is "worse" in 1 of 40 cases, and "better"
/// in another one.
inline constexpr double kPairedConfidence = 0.95;

/// The mean change from a baseline over pairs of one seed each, with its interval, which is infinite for a single pair.
struct PairedChange {
  std::size_t pairs = 0;
  double estimate = 0;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};

/// The candidate as a multiple of the baseline. Student's t is applied to the logarithms of the pairs' ratios and the
/// result is converted back. So the estimate is the geometric mean, in which twice as long weighs as much as half as
/// long. "No change" is 1. Requires: as many candidates as baselines, at least one, all above 0.
[[nodiscard]] PairedChange paired_ratio(std::span<const double> baseline, std::span<const double> candidate);

/// By how much the candidate is above the baseline, by Student's t on the pairs' differences. It serves percentages,
/// which may be 0. "No change" is 0. Requires: as many candidates as baselines, at least one.
[[nodiscard]] PairedChange paired_difference(std::span<const double> baseline, std::span<const double> candidate);

/// The mean of changes, one per pair, with its interval by Student's t. "No change" is 0. Requires: at least one.
[[nodiscard]] PairedChange mean_change(std::vector<double> changes);

/// The power of minimum_detectable().
inline constexpr double kDetectionPower = 0.8;
/// The smallest true change that pairs as scattered as these would have shown, by an interval without "no change", with
/// kDetectionPower: (t(0.975) + t(0.8)) standard errors. In the unit of a difference; of a ratio in percent: by how
/// much the candidate would have to be above the baseline. Nothing for a single pair.
[[nodiscard]] std::optional<double> minimum_detectable(const PairedChange& change, bool is_ratio);
/// The same for a difference whose bootstrap interval has this half width.
[[nodiscard]] double minimum_detectable(double half_width);

/// `no_change` is 1 for a ratio, 0 for a difference.
[[nodiscard]] PairedVerdict verdict_of(const PairedChange& change, double no_change, bool less_is_better);

}  // namespace kvist::analysis

// Whether open arrivals followed the law that was ordered: rate, gaps, dispersion, and a Kolmogorov-Smirnov test.
#pragma once

#include <cstddef>
#include <optional>

#include "kvist/results/records.h"
#include "kvist/spec/arrival_spec.h"

namespace kvist::analysis {

/// The regularised lower incomplete gamma function P(shape, x): the share of a Gamma(shape, 1) variate below x.
/// Requires: shape > 0, x >= 0.
[[nodiscard]] double gamma_share_below(double shape, double x);
/// The probability that the largest distance between the distribution of n samples and their law is at least `distance`
/// by chance (Kolmogorov's asymptotic, with Stephens' correction for few samples).
[[nodiscard]] double kolmogorov_probability(double distance, std::size_t n);

/// Figures of the arrivals that were due between the start of the load and the end of the window. With a profile, gaps
/// and counts are those in the profile's time, in which the ordered rate is constant.
struct ArrivalTest {
  spec::ArrivalKind kind = spec::ArrivalKind::kPoisson;
  std::size_t arrivals = 0;
  double ordered_per_s = 0;               ///< the mean of the ordered rate over that time
  std::optional<double> scheduled_per_s;  ///< by the instants at which they were due
  std::optional<double> sent_per_s;       ///< of these, those that were sent by the end of that time
  std::optional<double> gap_variation;    ///< standard deviation of the sent gaps over their mean
  double expected_gap_variation = 1;      ///< of bursts: of the gaps between bursts
  std::optional<double> dispersion;       ///< variance over mean of the number sent per interval
  double expected_dispersion = 1;         ///< in the limit of long intervals
  std::optional<double> ks_distance;      ///< of the sent gaps from their law; nothing with equal gaps
  std::optional<double> ks_probability;   ///< that it is so large by chance
  double latest_ms = 0;                   ///< the longest time by which a start was late

  /// Whether the arrivals were as ordered: the test does not refuse the law at 1 %, and at least 98 % of those due were
  /// sent in time to count.
  [[nodiscard]] bool as_ordered() const;
};

/// `ordered_per_s` is the rate that was ordered, without the profile.
[[nodiscard]] ArrivalTest test_arrivals(const results::LevelRecord& level, const spec::ArrivalSpec& spec,
                                        double ordered_per_s);

}  // namespace kvist::analysis

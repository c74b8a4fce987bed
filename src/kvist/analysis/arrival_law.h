// Whether open arrivals followed the law that was ordered: rate, gaps, dispersion, and a Kolmogorov-Smirnov test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kvist/results/records.h"
#include "kvist/spec/arrival_spec.h"
#include "kvist/workload/turn_source.h"

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
  std::size_t arrivals = 0;               ///< that became a request, in time or not
  std::size_t sent = 0;                   ///< of these, those sent by the end of that time
  double ordered_per_s = 0;               ///< the mean of the ordered rate over that time
  std::optional<double> scheduled_per_s;  ///< by the instants at which they were due
  std::optional<double> sent_per_s;       ///< of these, those that were sent by the end of that time
  std::optional<double> gap_variation;    ///< standard deviation of the sent gaps over their mean
  double expected_gap_variation = 1;      ///< of bursts: of the gaps between bursts
  std::optional<double> dispersion;       ///< variance over mean of the number sent per interval
  double expected_dispersion = 1;         ///< in the limit of long intervals
  std::optional<double> ks_distance;      ///< of the sent gaps from their law, at least; nothing with equal gaps
  std::optional<double> ks_probability;   ///< that it is so large by chance, at most
  double gap_tolerance_ms = 0;            ///< by which each gap may be off without a distance: how late sends were
  double latest_ms = 0;                   ///< the longest time by which a start was late
  std::size_t overdue = 0;                ///< starts that were late by more than a second
  std::uint64_t refused = 0;              ///< arrivals that were due and never sent, because too many were alive
  workload::HeldBack held_back = {};      ///< arrivals that waited for a place

  /// Whether the law is refused: at 1 %, and with a distance above kAcceptedDistance. With enough arrivals any law is
  /// refused at 1 %, because no client sends without delay, so a small distance does not count.
  [[nodiscard]] bool law_refused() const;
  /// The share of the arrivals that were due which were sent in time: without waiting for a place, and at most a second
  /// late.
  [[nodiscard]] double share_in_time() const;
  /// Whether the arrivals were as ordered: the law is not refused, and at least 98 % of those due were sent in time.
  [[nodiscard]] bool as_ordered() const;
};

/// The Kolmogorov-Smirnov distance that is accepted whatever its probability.
inline constexpr double kAcceptedDistance = 0.05;

/// `ordered_per_s` is the rate that was ordered, without the profile. Arrivals that were refused are known from the
/// gaps in the conversations' ids and, behind the last of these, from the schedule. Those that waited for a place are
/// given; without them only those that were never sent are known, from the schedule (held_back_in() has both).
[[nodiscard]] ArrivalTest test_arrivals(const results::LevelRecord& level, const spec::ArrivalSpec& spec,
                                        double ordered_per_s, const std::optional<workload::HeldBack>& held_back = {});

/// The arrivals of a stored level that waited for a place, from when its conversations were due and ended. Those of a
/// load that was divided (agents) may be more: each part has its share of the places, which may be full while others
/// are not.
[[nodiscard]] workload::HeldBack held_back_in(const results::LevelRecord& level, const spec::ArrivalSpec& spec,
                                              double ordered_per_s);

}  // namespace kvist::analysis

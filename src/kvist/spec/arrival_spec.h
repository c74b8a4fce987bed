// When conversations start: in a closed or an open loop.
#pragma once

#include <cstdint>

namespace kvist::spec {

/// The process by which conversations start, which determines what a level's number means.
enum class ArrivalKind {
  kClosed,   ///< a level is a number of conversations at once; when one ends the next starts
  kPoisson,  ///< a level is a number of starts per minute, at exponential gaps, whatever is in flight
  kBursty,   ///< the same rate at gamma-distributed gaps: arrivals come in clusters
};

/// Open arrivals (poisson, bursty) depend on the seed and the rate alone, not on the speed of answers.
struct ArrivalSpec {
  ArrivalKind kind = ArrivalKind::kClosed;
  /// Bursty: standard deviation of the gaps over their mean, the coefficient of variation; 1 is poisson.
  double variation = 2;
  /// Open: the most conversations alive at once; arrivals beyond it are refused and counted.
  std::uint32_t max_conversations = 4'096;

  [[nodiscard]] bool is_open() const { return kind != ArrivalKind::kClosed; }
  bool operator==(const ArrivalSpec&) const = default;
};

/// Starts per second of a level of open arrivals.
[[nodiscard]] constexpr double starts_per_second(std::uint32_t starts_per_minute) {
  return static_cast<double>(starts_per_minute) / 60;
}

inline constexpr double kMaxArrivalVariation = 20;

}  // namespace kvist::spec

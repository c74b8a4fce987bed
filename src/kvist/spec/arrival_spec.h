// When conversations arrive: as places become free, or on their own.
#pragma once

#include <cstdint>

namespace kvist::spec {

/// The process by which conversations start, and with it what a level counts.
enum class ArrivalKind {
  kClosed,   ///< a level is so many conversations at once: one that ends makes room for the next
  kPoisson,  ///< a level is so many starts per minute, at exponential gaps, whatever is in flight
  kBursty,   ///< the same rate at gamma-distributed gaps: arrivals come in clusters
};

/// Open arrivals (poisson, bursty) follow from the seed and the rate alone, never from how fast answers come.
struct ArrivalSpec {
  ArrivalKind kind = ArrivalKind::kClosed;
  /// Bursty: standard deviation of the gaps over their mean, the coefficient of variation; 1 is poisson.
  double variation = 2;
  /// Open: conversations alive at once, at most; an arrival beyond it is refused and counted.
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

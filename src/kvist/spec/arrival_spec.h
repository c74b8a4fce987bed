// When conversations start: in a closed or an open loop.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::spec {

/// The process by which conversations start, which determines what a level's number means.
enum class ArrivalKind {
  kClosed,    ///< a level is a number of conversations at once; when one ends the next starts
  kConstant,  ///< a level is a number of starts per minute, at equal gaps, whatever is in flight; as are the next three
  kPoisson,   ///< at exponential gaps
  kBursty,    ///< at gamma-distributed gaps: arrivals come in clusters
  kBursts,    ///< in bursts of `burst_size` at one instant, at exponential gaps between the bursts
};

/// What becomes of an open arrival that finds `max_conversations` alive.
enum class WhenFull {
  kWait,    ///< it is sent late, when a conversation ends; its intended instant stays
  kRefuse,  ///< it is not sent, and counted
};

/// The rate at an instant as a multiple of the level's; linear between two points, and after the last one constant. Two
/// points at one instant are a step.
struct ArrivalPoint {
  Duration at{};  ///< since the start of the load
  double share = 1;
  bool operator==(const ArrivalPoint&) const = default;
};

/// Open arrivals depend on the seed and the rate alone, not on the speed of answers.
struct ArrivalSpec {
  ArrivalKind kind = ArrivalKind::kClosed;
  /// Bursty: standard deviation of the gaps over their mean, the coefficient of variation; 1 is poisson.
  double variation = 2;
  std::uint32_t burst_size = 10;  ///< bursts: starts at one instant
  /// Open: the most conversations alive at once.
  std::uint32_t max_conversations = 4'096;
  WhenFull when_full = WhenFull::kWait;
  std::vector<ArrivalPoint> profile = {};  ///< open: ramps and steps; empty: the level's rate all the time
  double rate_per_s = 0;                   ///< open: starts per second in place of the level's number; 0: the level's

  [[nodiscard]] bool is_open() const { return kind != ArrivalKind::kClosed; }
  /// Starts per second at a level of open arrivals, which counts them per minute.
  [[nodiscard]] double starts_per_second(std::uint32_t level) const {
    return rate_per_s > 0 ? rate_per_s : static_cast<double>(level) / 60;
  }
  bool operator==(const ArrivalSpec&) const = default;
};

inline constexpr double kMaxArrivalVariation = 20;
inline constexpr double kMinArrivalVariation = 0.05;
inline constexpr std::uint32_t kMaxBurstSize = 10'000;
inline constexpr double kMaxArrivalShare = 1'000;

}  // namespace kvist::spec

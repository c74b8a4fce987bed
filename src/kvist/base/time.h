// Time as the core sees it: a value handed in, from the wall clock or from the event queue, and the core cannot tell
// which.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvist {

using Duration = std::chrono::nanoseconds;

/// Tag of the clock that core time belongs to. It has no now(): below `net` nothing reads a clock. Live, the epoch is
/// that of std::chrono::steady_clock (net::now()); in the simulation it is the start of the run.
struct CoreClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<CoreClock>;
  static constexpr bool is_steady = true;
};

using TimePoint = CoreClock::time_point;

[[nodiscard]] constexpr double to_seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}
[[nodiscard]] constexpr double to_milliseconds(Duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

/// Nearest whole nanosecond.
[[nodiscard]] constexpr Duration from_seconds(double seconds) {
  return Duration(static_cast<std::int64_t>(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5)));
}
[[nodiscard]] constexpr Duration from_milliseconds(double ms) {
  return from_seconds(ms * 1e-3);
}

}  // namespace kvist

// Core time: a value that is passed in, from the wall clock or from the simulation's event queue. The core does not
// distinguish them.
#pragma once

#include <chrono>
#include <cstdint>

namespace kvist {

using Duration = std::chrono::nanoseconds;

/// The clock of core time. It has no now(), because modules below `net` read no clock. In a service, its epoch is that
/// of std::chrono::steady_clock (net::now()); in the simulation it is the start of the run.
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

/// Nearest whole nanosecond. What is beyond a century becomes one, so that a few can be added; not a number becomes 0.
[[nodiscard]] constexpr Duration from_seconds(double seconds) {
  constexpr double kCentury = 3.15e9;
  if (!(seconds >= -kCentury)) seconds = seconds < 0 ? -kCentury : 0;
  if (seconds > kCentury) seconds = kCentury;
  return Duration(static_cast<std::int64_t>(seconds * 1e9 + (seconds < 0 ? -0.5 : 0.5)));
}
[[nodiscard]] constexpr Duration from_milliseconds(double ms) {
  return from_seconds(ms * 1e-3);
}

}  // namespace kvist

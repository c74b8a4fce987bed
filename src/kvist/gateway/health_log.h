// What the log says of a worker's health.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kvist/base/time.h"
#include "kvist/dispatch/fleet.h"

namespace kvist::gateway {

/// Gives a line for the first failed check of a worker that was never well, and for each later change of its health,
/// whoever found it. There is at most one line per kPause: changes that follow one another faster share a line, which
/// gives their number. One object per worker. Threads: one.
class HealthLog {
 public:
  static constexpr Duration kPause = std::chrono::seconds(1);

  /// The line that is due, if one is. To be called again and again.
  [[nodiscard]] std::optional<std::string> next_line(const dispatch::Fleet::Worker& worker, TimePoint now);

 private:
  bool said_ = false;  // there was a line
  TimePoint last_{};   // when
  std::uint64_t changes_ = 0;
};

}  // namespace kvist::gateway

// Keeps a repeated warning from flooding the log.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/time.h"

namespace kvist::gateway {

/// Lets one warning pass per interval and counts the others. One object per kind of warning. Threads: one.
class WarningGate {
 public:
  explicit WarningGate(Duration interval = std::chrono::seconds(10)) : interval_(interval) {}

  /// Whether to write this warning. If so, `suppressed()` is the number of warnings that were not written since the
  /// last one.
  [[nodiscard]] bool pass(TimePoint now) {
    if (last_ && now - *last_ < interval_) {
      ++held_back_;
      return false;
    }
    last_ = now;
    suppressed_ = held_back_;
    held_back_ = 0;
    return true;
  }
  [[nodiscard]] std::uint64_t suppressed() const { return suppressed_; }

 private:
  Duration interval_;
  std::optional<TimePoint> last_;
  std::uint64_t held_back_ = 0;
  std::uint64_t suppressed_ = 0;
};

}  // namespace kvist::gateway

// Private to net: notices a peer that reads too little of what there is for it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::net {

/// While there is more for the peer than the socket takes, it has to read so many bytes in each period. A pure class of
/// what it has read in all, and the time. Threads: one.
class ReaderWatch {
 public:
  /// `least_rate`: bytes per second; 0: anything at all.
  ReaderWatch(std::uint64_t least_rate, Duration period)
      : period_(period),
        enough_(std::max<std::uint64_t>(
            1, static_cast<std::uint64_t>(static_cast<double>(least_rate) * to_seconds(period)))) {}

  /// A period begins, unless one runs.
  void begin(std::uint64_t read, TimePoint now) {
    if (runs_) return;
    runs_ = true;
    target_ = read + enough_;
    deadline_ = now + period_;
  }
  /// There is nothing more for the peer at present.
  void end() { runs_ = false; }
  /// Whether a period has passed in which it read too little. After one in which it read enough the next begins.
  [[nodiscard]] bool is_too_slow(std::uint64_t read, TimePoint now) {
    if (!runs_ || now < deadline_) return false;
    if (read < target_) return true;
    runs_ = false;
    begin(read, now);
    return false;
  }

 private:
  Duration period_;
  std::uint64_t enough_;
  std::uint64_t target_ = 0;  // what it has to have read at the deadline
  TimePoint deadline_{};
  bool runs_ = false;
};

}  // namespace kvist::net

// A token bucket: how much may be taken per time.
#pragma once

#include <algorithm>

#include "kvist/base/time.h"

namespace kvist::gateway {

/// Holds up to `most` units and gains `most` per minute, evenly. What is taken may leave a debt, which is how a price
/// that is known only afterwards is paid. So over any time t at most `most` x (1 + t / 1 min) units are taken, plus
/// the debt that the last one left. No clock: every call says what time it is, and an earlier time than that of the
/// last call adds nothing. Threads: one.
class TokenBucket {
 public:
  TokenBucket(double most, TimePoint now) : most_(most), level_(most), at_(now) {}

  /// Takes `units`, which may leave a debt; below 0, gives them back.
  void take(double units, TimePoint now) {
    fill(now);
    level_ = std::min(most_, level_ - units);
  }
  /// How long it takes until the bucket holds `needed` units if none are taken. Requires: needed <= most.
  [[nodiscard]] Duration wait_for(double needed, TimePoint now) {
    fill(now);
    if (level_ >= needed) return Duration(0);
    return from_seconds((needed - level_) * kSeconds / most_);
  }
  /// Changes the bound; the same share of it is left.
  void resize(double most, TimePoint now) {
    fill(now);
    level_ *= most / most_;
    most_ = most;
  }
  [[nodiscard]] double level() const { return level_; }

 private:
  static constexpr double kSeconds = 60;

  void fill(TimePoint now) {
    if (now <= at_) return;
    level_ = std::min(most_, level_ + most_ / kSeconds * to_seconds(now - at_));
    at_ = now;
  }

  double most_;
  double level_;
  TimePoint at_;
};

}  // namespace kvist::gateway

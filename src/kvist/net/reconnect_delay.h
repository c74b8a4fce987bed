// Private to net: how long to wait before the next attempt to connect.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::net {

/// Doubles with each attempt that failed. Who cannot be reached is asked again every kMostUnreachable, because a worker
/// that starts should be found soon; who was reached and spoke rubbish after up to kMostBroken, because it will
/// probably do so again. A connection that stood for longer than the last delay begins anew. Varied by a fifth, so that
/// a thousand subscriptions of one host do not come back in one moment. Pure.
class ReconnectDelay {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(100);
  static constexpr Duration kMostUnreachable = std::chrono::seconds(1);
  static constexpr Duration kMostBroken = std::chrono::seconds(10);

  /// `seed` decides only how delays are varied.
  explicit ReconnectDelay(std::uint64_t seed) : state_(seed | 1) {}

  /// The delay after an attempt or a connection that ended. `stood_for`: for how long the connection was up; 0 if it
  /// never was.
  [[nodiscard]] Duration next(Duration stood_for, bool broken) {
    const Duration most = broken ? kMostBroken : kMostUnreachable;
    if (stood_for > last_) last_ = Duration();
    last_ = std::clamp(2 * last_, kFirst, most);
    state_ = state_ * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;  // Knuth's MMIX
    const auto fifth = static_cast<Duration::rep>(state_ >> 33) % (last_.count() / 5);
    return last_ - Duration(fifth);
  }

 private:
  Duration last_ = Duration();
  std::uint64_t state_;
};

}  // namespace kvist::net

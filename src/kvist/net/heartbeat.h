// Private to net: when to ask a silent peer for a sign of life, and when to give it up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kvist/base/time.h"

namespace kvist::net {

/// Asks kInterval after the last sign, and gives up kSilence after it. Pure.
class Heartbeat {
 public:
  static constexpr Duration kInterval = std::chrono::seconds(1);
  static constexpr Duration kSilence = std::chrono::seconds(3);
  enum class Act : std::uint8_t { kNothing, kAsk, kGiveUp };

  explicit Heartbeat(TimePoint now) : last_sign_(now), last_asked_(now) {}
  /// The peer sent something, whatever it is.
  void on_sign(TimePoint now) { last_sign_ = now; }
  /// What to do now. Asked every kInterval, it finds silence at the latest after kSilence + kInterval. If it was not
  /// asked for long, this process stood still, and signs may wait to be read.
  [[nodiscard]] Act act(TimePoint now) {
    if (now - std::exchange(last_asked_, now) >= 2 * kInterval) last_sign_ = std::max(last_sign_, now - kInterval);
    const Duration silence = now - last_sign_;
    if (silence >= kSilence) return Act::kGiveUp;
    return silence >= kInterval ? Act::kAsk : Act::kNothing;
  }

 private:
  TimePoint last_sign_;
  TimePoint last_asked_;
};

}  // namespace kvist::net

// One page that looks: what it was sent, and how much it may ask.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "kvist/base/time.h"
#include "kvist/net/websocket.h"

namespace kvist::dashboard {

/// While more than this is unsent, a viewer gets no samples.
inline constexpr std::size_t kSkipBytes = 256U << 10;

/// At most so many commands a second, a second's worth at once.
class CommandBudget {
 public:
  static constexpr double kPerSecond = 20;

  /// Whether one more is allowed.
  [[nodiscard]] bool take(TimePoint now) {
    if (last_ != TimePoint{}) left_ = std::min(kPerSecond, left_ + (kPerSecond * to_seconds(now - last_)));
    last_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double left_ = kPerSecond;
  TimePoint last_{};
};

struct Viewer {
  std::uint64_t number = 0;
  std::shared_ptr<net::WebSocket> socket;
  CommandBudget budget;
  bool wants_conversations = false;
  bool wants_decisions = false;
  std::uint64_t event = 0;          ///< the last it knows
  std::uint64_t conversations = 0;  ///< the version it knows; 0: none
  std::uint64_t decisions = 0;      ///< the same
  std::uint64_t sweep = 0;          ///< the same

  [[nodiscard]] bool reads_slowly() const { return socket->unsent_bytes() > kSkipBytes; }
};

}  // namespace kvist::dashboard

// Time limits of turns, with one scheduled event for all of them.
#pragma once

#include <deque>
#include <optional>

#include "kvist/base/time.h"
#include "kvist/simulation/messages.h"

namespace kvist::simulation {

/// Deadlines in the order of their time, which is the order of insertion because all of a queue have the same length.
/// Those of ended turns are dropped when they come to the front, so that few events are scheduled in vain. Threads:
/// one.
class Deadlines {
 public:
  void push(TimePoint at, TurnId turn) { waiting_.push_back({at, turn}); }

  /// The first deadline of a turn that is still under way, as `is_live(turn)` says.
  template <class IsLive>
  [[nodiscard]] std::optional<TimePoint> next(const IsLive& is_live) {
    while (!waiting_.empty() && !is_live(waiting_.front().turn)) waiting_.pop_front();
    if (waiting_.empty()) return std::nullopt;
    return waiting_.front().at;
  }

  /// Removes and returns a turn under way whose time is up; nothing if there is none.
  template <class IsLive>
  [[nodiscard]] std::optional<TurnId> pop_due(TimePoint now, const IsLive& is_live) {
    const std::optional<TimePoint> at = next(is_live);
    if (!at || *at > now) return std::nullopt;
    const TurnId turn = waiting_.front().turn;
    waiting_.pop_front();
    return turn;
  }

 private:
  struct Deadline {
    TimePoint at;
    TurnId turn;
  };
  std::deque<Deadline> waiting_;
};

}  // namespace kvist::simulation

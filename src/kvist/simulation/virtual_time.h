// The clock of a simulation and its events.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/simulation/event.h"
#include "kvist/simulation/event_queue.h"

namespace kvist::simulation {

/// Is told of what is scheduled.
class ScheduleObserver {
 public:
  virtual ~ScheduleObserver() = default;
  virtual void on_scheduled(TimePoint at, const Event& event) = 0;
};

/// The present instant of the simulation and the future events. It starts at TimePoint{}, and only next() moves it,
/// never backwards. Threads: one.
class VirtualTime {
 public:
  [[nodiscard]] TimePoint now() const { return now_; }
  /// Schedules an event. If `at` is in the past, it is due now, as with any timer.
  void schedule(TimePoint at, Event event) {
    at = std::max(at, now_);
    queue_.push(at, event);
    if (observer_ != nullptr) observer_->on_scheduled(at, event);
  }
  [[nodiscard]] bool has_next() const { return !queue_.empty(); }
  /// Advances to the next event. Requires: there is one.
  [[nodiscard]] Event next() {
    const auto [at, event] = queue_.pop();
    KVIST_CHECK(at >= now_, "time runs forwards");
    now_ = at;
    ++events_;
    return event;
  }
  /// The number of events so far.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// From here on it is told of what is scheduled. Requires: nothing is yet, and nothing is when it is no more.
  void tell(ScheduleObserver& observer) {
    KVIST_CHECK(queue_.empty(), "an event was scheduled that the observer does not know");
    observer_ = &observer;
  }

 private:
  TimePoint now_;
  EventQueue<Event> queue_;
  std::uint64_t events_ = 0;
  ScheduleObserver* observer_ = nullptr;
};

}  // namespace kvist::simulation

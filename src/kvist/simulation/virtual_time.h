// The clock of a simulation, and what is due on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/simulation/event_queue.h"

namespace kvist::simulation {

/// What can happen. The comment says what `subject` means.
enum class EventKind : std::uint8_t {
  kLoadWakeup,           ///< the source of turns wants to be polled; number of the arming
  kClientDeadline,       ///< a turn may be over time at the client
  kRequestAtGateway,     ///< a request was received and read; parcel
  kClientGoneAtGateway,  ///< the client closed the connection; turn
  kGatewayDeadline,      ///< a request may be over time at the gateway
  kHealthCheck,          ///< the gateway's health check of a worker is answered
  kRequestAtWorker,      ///< parcel
  kAbortAtWorker,        ///< the gateway closed the connection; turn
  kWorkerWake,           ///< posted by a worker to itself: new input is handled
  kWorkerTimer,          ///< a step ends; number of the arming
  kRefusalAtGateway,     ///< the worker took the request not; parcel
  kStepAtGateway,        ///< a step's tokens; parcel
  kStepAtClient,         ///< a step's tokens; parcel
  kRefusalAtClient,      ///< an answer that is an error; parcel
  kKvEventsAtGateway,    ///< a step's KV events; parcel
  kTimeline,             ///< the workers are read
  kSnapshot,             ///< the published method's reading
  kDrainTimeout,         ///< what is still in flight is broken off
};

/// An event, small enough to be copied about.
struct Event {
  std::uint64_t subject = 0;
  WorkerId worker;
  EventKind kind = EventKind::kLoadWakeup;
};

/// The instant at which the simulation stands, and the events to come. Starts at TimePoint{}; only next() moves it, and
/// never backwards. One thread.
class VirtualTime {
 public:
  [[nodiscard]] TimePoint now() const { return now_; }
  /// What lies in the past is due now, as with any timer.
  void schedule(TimePoint at, Event event) { queue_.push(std::max(at, now_), event); }
  [[nodiscard]] bool has_next() const { return !queue_.empty(); }
  /// Goes on to the next event. Requires that there is one.
  [[nodiscard]] Event next() {
    const auto [at, event] = queue_.pop();
    KVIST_CHECK(at >= now_, "time runs forwards");
    now_ = at;
    ++events_;
    return event;
  }
  /// How many events have happened.
  [[nodiscard]] std::uint64_t events() const { return events_; }

 private:
  TimePoint now_;
  EventQueue<Event> queue_;
  std::uint64_t events_ = 0;
};

}  // namespace kvist::simulation

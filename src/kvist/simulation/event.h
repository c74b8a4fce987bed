// The events of the discrete-event simulation.
#pragma once

#include <cstdint>

#include "kvist/base/id.h"

namespace kvist::simulation {

/// The kinds of events, with the meaning of `subject`.
enum class EventKind : std::uint8_t {
  kLoadWakeup,           ///< the source of turns is polled; number of the arming
  kClientDeadline,       ///< a turn's deadline at the client
  kRequestAtGateway,     ///< a request was received and read; parcel
  kClientGoneAtGateway,  ///< the client closed the connection; turn
  kGatewayDeadline,      ///< a request's deadline at the gateway; number of the gateway
  kLookAtHeld,           ///< a gateway looks at the requests that it holds; number of the gateway
  kHealthCheck,          ///< a gateway's health check of a worker is answered; number of the gateway
  kPeersDue,             ///< a gateway has something to tell the others; number of the gateway
  kPeerMessage,          ///< a gateway hears another one; parcel
  kRequestAtWorker,      ///< parcel
  kAbortAtWorker,        ///< the gateway closed the connection; turn
  kWorkerWake,           ///< posted by a worker to itself: new input is handled
  kWorkerTimer,          ///< a step ends; number of the arming
  kRefusalAtGateway,     ///< the worker refused the request; parcel
  kStepAtGateway,        ///< a step's tokens; parcel
  kStepAtClient,         ///< a step's tokens; parcel
  kRefusalAtClient,      ///< an answer that is an error; parcel
  kKvEventsAtGateway,    ///< a step's KV events; parcel
  kWorkerChange,         ///< something becomes of a worker; index in spec::SimulationSpec::changes
  kWorkerBack,           ///< a worker's new process may begin
  kWorkerLostAtGateway,  ///< the connections to a worker broke
  kWorkerBackAtGateway,  ///< a worker is seen to be a new process
  kTimeline,             ///< a reading of the workers for timelines
  kSnapshot,             ///< a snapshot of the published method
  kDrainTimeout,         ///< turns still in flight are broken off
};

/// An event, small enough to be copied.
struct Event {
  std::uint64_t subject = 0;
  WorkerId worker;
  EventKind kind = EventKind::kLoadWakeup;
};

}  // namespace kvist::simulation

// What only the simulation needs to know: how long the ways between the processes are.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::spec {

/// One-way delays, and what a simulated run records. Defaults: loopback, as measured by `make bench`.
struct SimulationSpec {
  Duration client_hop = std::chrono::microseconds(40);       ///< load generator to gateway and back, each way
  Duration gateway_time = std::chrono::microseconds(90);     ///< tokenizing, hashing and routing one request
  Duration worker_hop = std::chrono::microseconds(40);       ///< gateway to worker and back, each way
  Duration kv_event_delay = std::chrono::microseconds(500);  ///< end of a step to the event in the gateway's index
  Duration timeline_period = std::chrono::seconds(1);        ///< between two readings of each worker; 0: no timeline
  bool keep_token_gaps = true;                               ///< store every gap between chunks of every turn

  bool operator==(const SimulationSpec&) const = default;
};

}  // namespace kvist::spec

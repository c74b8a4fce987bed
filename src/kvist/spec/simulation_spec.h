// What only the simulation needs to know: how long the ways between the processes are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::spec {

/// What becomes of a worker while a level runs. One of the last three is set.
struct WorkerChange {
  Duration at{};                                     ///< from the start of the load
  std::string worker;                                ///< its name
  std::optional<double> slowness = {};               ///< from here on steps take so many times as long as modelled
  std::optional<std::uint32_t> max_num_tokens = {};  ///< the token budget of a step from here on
  std::optional<Duration> restart = {};              ///< its process dies, and is back after this time, without a cache

  bool operator==(const WorkerChange&) const = default;
};

/// Several gateways before the same workers. Each request goes to one of them by chance, as a balancer before them that
/// knows nothing would give it.
struct SimulatedGatewaysSpec {
  std::uint32_t count = 1;
  bool exchange = true;                         ///< they tell each other their load (docs/guide/several-gateways.md)
  Duration hop = std::chrono::milliseconds(1);  ///< from one to another, one way
  double loss = 0;                              ///< share of the messages between them that never arrive

  bool operator==(const SimulatedGatewaysSpec&) const = default;
};

/// One-way delays, and what a simulated run records. Defaults: loopback, as measured by `make bench`.
struct SimulationSpec {
  Duration client_hop = std::chrono::microseconds(40);    ///< load generator to gateway and back, each way
  Duration gateway_time = std::chrono::microseconds(90);  ///< tokenizing, hashing and routing one request
  /// How much longer requests take to reach the gateway: only of a replay, by what was observed of the recorded traffic
  /// (planning::Calibration). Part of no file.
  Duration way_in{};
  Duration worker_hop = std::chrono::microseconds(40);       ///< gateway to worker and back, each way
  Duration kv_event_delay = std::chrono::microseconds(500);  ///< end of a step to the event in the gateway's index
  Duration timeline_period = std::chrono::seconds(1);        ///< between two readings of each worker; 0: no timeline
  bool keep_token_gaps = true;                               ///< store every gap between chunks of every turn
  /// Of conversations (of the requests of a trace) those whose clients want their answers whole: the gateway sees
  /// nothing of them before their ends. Their times to first token are those of the engine.
  double unstreamed_share = 0;
  std::vector<WorkerChange> changes = {};  ///< what happens to workers on the way
  SimulatedGatewaysSpec gateways = {};

  bool operator==(const SimulationSpec&) const = default;
};

}  // namespace kvist::spec

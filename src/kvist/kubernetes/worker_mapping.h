// Which workers the endpoints of a Service, or the pods of an InferencePool, are.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvist/kubernetes/objects.h"
#include "kvist/kubernetes/pool_objects.h"

namespace kvist::kubernetes {

// What a pod says of itself: labels, or annotations where a label may not hold it.
inline constexpr std::string_view kModelLabel = "kvist.io/model";
inline constexpr std::string_view kRoleLabel = "kvist.io/role";
inline constexpr std::string_view kKvEventsPortLabel = "kvist.io/kv-events-port";
inline constexpr std::string_view kKvReplayPortLabel = "kvist.io/kv-replay-port";

/// Which endpoints become workers, and how they are reached.
struct WorkerSelection {
  std::string group = {};            ///< in the names of workers whose endpoint names no pod
  std::string port_name = {};        ///< of the slices' ports; empty: their only one, or the one called "http"
  std::uint16_t port = 0;            ///< 0: the slices'
  bool watches_pods = false;         ///< an endpoint of a Service is a worker only when its pod is known
  std::string model = {};            ///< a pod that names another one is left out
  std::string role = {};             ///< empty: of any role; otherwise a pod that names another one is left out
  std::uint16_t kv_events_port = 0;  ///< where neither the pod nor a port called "kv-events" says it; 0: none
  std::uint16_t kv_replay_port = 0;  ///< the same with "kv-replay"
};

struct Worker {
  std::string name = {};  ///< the pod's
  std::string host = {};  ///< an address; an IPv6 one without brackets
  std::uint16_t port = 0;
  std::string model = {};  ///< that its pod names; empty: none
  std::string role = {};
  std::uint16_t kv_events_port = 0;  ///< 0: it publishes none
  std::uint16_t kv_replay_port = 0;

  bool operator==(const Worker&) const = default;
};

using SlicesByKey = std::map<std::string, EndpointSlice>;
using PodsByKey = std::map<std::string, PodMetadata>;

/// The workers, by name. Unready and terminating endpoints are not among them, so that they are drained. An endpoint
/// that is in two slices is one worker; if a pod has addresses of both families, the IPv4 one is used. The result
/// depends on the arguments only, so whatever led to a state, the fleet is that of a fresh list. `pods` is of the same
/// namespace as the slices. Pure.
[[nodiscard]] std::vector<Worker> workers_of(const SlicesByKey& slices, const PodsByKey& pods,
                                             const WorkerSelection& selection);

using PoolPodsByKey = std::map<std::string, Pod>;

/// The workers of a pool whose selector has found these pods, by name. Every ready pod is one, or one for each of the
/// pool's ports if there are several; then its name ends with the port, and the ports of KV events count up with the
/// ports, as an engine's do with its data-parallel ranks. `selection.port` stands for the pool's ports. Pure.
[[nodiscard]] std::vector<Worker> workers_of(const InferencePool& pool, const PoolPodsByKey& pods,
                                             const WorkerSelection& selection);

}  // namespace kvist::kubernetes

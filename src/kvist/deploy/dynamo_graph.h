// Manifests of NVIDIA Dynamo's graphs, and what their status says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/dynamo_target_spec.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::deploy {

/// DYN_ROUTER_MODE for the mode: "round-robin", "random", "kv", "least-loaded", "power-of-two". Both `kv` and `dynamo`
/// are Dynamo's own KV-aware routing there. Errors: Dynamo has no such mode.
[[nodiscard]] Result<std::string_view> dynamo_router_mode(spec::RoutingMode mode);

/// The manifest (nvidia.com/v1beta1, JSON) that is applied for the mode: the whole graph, or, where the graph is
/// deployed already, the frontend's one variable, all of whose lists are merged by name. `indent` 0: one line. Errors:
/// those of dynamo_router_mode(); a graph whose deployment names no profile, which has GPUs and memory.
[[nodiscard]] Result<std::string> dynamo_manifest(const spec::DynamoTargetSpec& dynamo,
                                                  const spec::DeploymentSpec& deployment, const std::string& name_space,
                                                  spec::RoutingMode mode, int indent);

/// What a graph's status says of the change that was made.
struct GraphReadiness {
  std::int64_t generation = 0;  ///< of what is wanted
  std::int64_t observed = 0;    ///< of what the status is about
  bool ready = false;           ///< the condition Ready is true
  std::string reason = {};      ///< of that condition: "updating", "pods_not_ready"
  std::string message = {};
  std::string state = {};  ///< "pending", "successful", "failed"

  /// Whether what is wanted is what runs. A status of an earlier generation says nothing of it, ready or not.
  [[nodiscard]] bool done() const { return observed >= generation && ready; }
};
/// Errors: no object of that kind.
[[nodiscard]] Result<GraphReadiness> read_graph_readiness(std::string_view object);

}  // namespace kvist::deploy

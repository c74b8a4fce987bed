// The objects of Kubernetes that a deployment consists of, and what their status says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/kubernetes/api_request.h"
#include "kvist/spec/deployment.h"

namespace kvist::deploy {

/// Ports of all containers: each pod has an address of its own.
inline constexpr std::uint16_t kPodHttpPort = 8000;
inline constexpr std::uint16_t kPodAdminPort = 8001;
inline constexpr std::uint16_t kPodKvEventsPort = 5557;
inline constexpr std::uint16_t kPodKvReplayPort = 5558;
/// The label of all objects that names their deployment. It is kvist's own, as what has it may be removed.
inline constexpr std::string_view kPartOf = "kvist.io/deployment";
/// Names of these in Services and slices.
inline constexpr std::string_view kHttpPortName = "http";
inline constexpr std::string_view kAdminPortName = "admin";

/// A worker or the gateway: one Deployment of one pod, and one Service, of the same name.
struct KubernetesPart {
  std::string name;        ///< of the part: "worker-0", "gateway"
  std::string object;      ///< of its objects: "bench-worker-0"
  std::string deployment;  ///< "bench": the label kPartOf of all its objects
  std::string model;       ///< that a worker serves; empty: the gateway
  std::string workload;    ///< apps/v1 Deployment, JSON
  std::string service;     ///< v1 Service, JSON
};

/// The parts of the deployment, workers first. A pod carries its settings in an annotation, which its container sees as
/// a file, so that a change of settings is a new pod and a pod never has other settings than its own. Parts find each
/// other by the names of the Services. `indent` 0: each object is one line. Errors: names that Kubernetes does not
/// take; settings beyond what annotations may hold; a gateway that says where its workers are. Requires: `deployment`
/// has `kubernetes`.
[[nodiscard]] Result<std::vector<KubernetesPart>> kubernetes_parts(const spec::DeploymentSpec& deployment,
                                                                   const std::string& name_space, int indent = 0);

/// What a Deployment's status says of the change that was made.
struct RolloutState {
  std::int64_t generation = 0;  ///< of what is wanted
  std::int64_t observed = 0;    ///< of what the status is about
  std::int64_t replicas = 0;    ///< pods that there are, old ones included
  std::int64_t updated = 0;     ///< those of what is wanted
  std::int64_t available = 0;
  std::string problem = {};  ///< why it does not go on; empty: nothing is known

  /// The one pod that is wanted runs, and no other does.
  [[nodiscard]] bool done() const { return observed >= generation && replicas == 1 && updated == 1 && available == 1; }
};
/// Errors: no object of that kind.
[[nodiscard]] Result<RolloutState> read_rollout_state(std::string_view object);

/// Where a part listens, by the slices of its Service.
struct PodAddress {
  std::string host;  ///< in brackets if it is an IPv6 address
  std::uint16_t http = 0;
  std::uint16_t admin = 0;
};
/// The only ready pod. `slices`: a list of EndpointSlices. Errors: kUnavailable if there is none, or more than one; a
/// port that is missing.
[[nodiscard]] Result<PodAddress> read_pod_address(std::string_view slices);

}  // namespace kvist::deploy

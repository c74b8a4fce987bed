// Workers in a cluster of Kubernetes: behind a Service, or of an InferencePool.
#pragma once

#include <string>

namespace kvist::spec {

/// Which endpoints of a cluster are workers. Their port, and whether they have TLS, is the group's.
struct KubernetesSourceSpec {
  std::string service = {};         ///< whose EndpointSlices are followed; empty: there is an `inference_pool`
  std::string inference_pool = {};  ///< whose selector and ports say which pods are workers
  std::string name_space = {};      ///< empty: the pod's own, or the kubeconfig's
  std::string port_name = {};       ///< of the Service's ports; empty, with the group's port 0: its only one, or "http"
  /// Label selector of the pods that are followed too, for what they say of themselves; empty: none are. The pods of a
  /// pool always are.
  std::string pods = {};
  std::string role = {};        ///< pods whose label kvist.io/role says another one are left out; empty: none is
  std::string kubeconfig = {};  ///< file; empty: a pod's service account, or $KUBECONFIG

  bool operator==(const KubernetesSourceSpec&) const = default;
};

}  // namespace kvist::spec

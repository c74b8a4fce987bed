// Workers behind a Service of Kubernetes.
#pragma once

#include <string>

namespace kvist::spec {

/// Which endpoints of a cluster are workers. Their port, and whether they have TLS, is the group's.
struct KubernetesSourceSpec {
  std::string service;          ///< whose EndpointSlices are followed
  std::string name_space = {};  ///< empty: the pod's own, or the kubeconfig's
  std::string port_name = {};   ///< of the Service's ports; empty, with the group's port 0: its only one, or "http"
  /// Label selector of the pods that are followed too, for what they say of themselves; empty: none are.
  std::string pods = {};
  std::string role = {};        ///< pods whose label kvist.io/role says another one are left out; empty: none is
  std::string kubeconfig = {};  ///< file; empty: a pod's service account, or $KUBECONFIG

  bool operator==(const KubernetesSourceSpec&) const = default;
};

}  // namespace kvist::spec

// A deployment whose parts run in a Kubernetes cluster instead of on this machine.
#pragma once

#include <chrono>
#include <string>

#include "kvist/base/time.h"

namespace kvist::spec {

/// What a container may use, as Kubernetes writes quantities: "4", "500m", "8Gi". Empty: the namespace's default.
struct ContainerResourcesSpec {
  std::string cpu = {};
  std::string memory = {};

  bool operator==(const ContainerResourcesSpec&) const = default;
};

/// One Deployment and one Service for each worker and for the gateway, all called after the deployment's name.
struct KubernetesDeploymentSpec {
  std::string image;            ///< has kvist as its entry point (deploy/Containerfile)
  std::string name_space = {};  ///< empty: the pod's own, or the kubeconfig's
  std::string kubeconfig = {};  ///< empty: a pod's service account, or $KUBECONFIG
  std::string field_manager = "kvist";
  bool force = false;                                 ///< fields are taken from their owners
  bool keep = false;                                  ///< what was applied runs on afterwards
  Duration ready_timeout = std::chrono::minutes(10);  ///< images are pulled, models loaded
  std::string models_claim = {};                      ///< PersistentVolumeClaim that is mounted at /models; empty: none
  ContainerResourcesSpec worker = {};                 ///< limits and requests alike, as of the next
  ContainerResourcesSpec gateway = {};

  bool operator==(const KubernetesDeploymentSpec&) const = default;
};

}  // namespace kvist::spec

// A deployment of NVIDIA Dynamo in Kubernetes, as the target of a sweep.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "kvist/base/time.h"

namespace kvist::spec {

enum class DynamoBackend { kTrtllm, kVllm };

/// What the whole graph is made of, if the sweep deploys it. What else its workers need is in `deployment`.
struct DynamoGraphSpec {
  DynamoBackend backend = DynamoBackend::kTrtllm;
  std::string image;              ///< Dynamo's runtime with that backend
  std::string model_path;         ///< directory or name of the model, as the workers load it
  std::string drafter_path = {};  ///< the same of a draft model, where the workers speculate with one
  std::string models_claim = {};  ///< PersistentVolumeClaim that is mounted at /models; empty: none is

  bool operator==(const DynamoGraphSpec&) const = default;
};

/// A DynamoGraphDeployment whose frontend's routing mode is an environment variable: a change of it is a redeployment.
struct DynamoTargetSpec {
  std::string name;
  std::string name_space = {};                        ///< empty: the pod's own, or the kubeconfig's
  std::string kubeconfig = {};                        ///< empty: a pod's service account, or $KUBECONFIG
  std::string frontend = "Frontend";                  ///< the component with the variable
  std::string field_manager = "kvist";                ///< under which kvist owns what it sets
  bool force = false;                                 ///< fields are taken from their owners
  Duration ready_timeout = std::chrono::minutes(30);  ///< a large model takes long to load
  std::uint32_t warm_up_requests = 5;                 ///< after each redeployment, before anything is measured
  std::optional<DynamoGraphSpec> graph = {};          ///< nothing: it is deployed already, and only its mode is set

  bool operator==(const DynamoTargetSpec&) const = default;
};

}  // namespace kvist::spec

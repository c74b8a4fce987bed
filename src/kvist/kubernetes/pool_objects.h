// What an InferencePool and its pods say, as far as kvist needs it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/kubernetes/objects.h"

namespace kvist::kubernetes {

/// inference.networking.k8s.io/v1: the pods that its selector matches, at its ports, are the workers of one model.
struct InferencePool {
  std::map<std::string, std::string, std::less<>> match_labels;
  /// Each is an endpoint of its own on every pod, such as one per data-parallel rank.
  std::vector<std::uint16_t> ports;

  /// As a query for pods has it: "app=vllm,tier=gpu".
  [[nodiscard]] std::string label_selector() const;
  bool operator==(const InferencePool&) const = default;
};
/// Errors: no labels, which would select every pod, or more than 32; no port, or more than 8.
[[nodiscard]] Result<InferencePool> read_inference_pool(const JsonObject& object);

/// A pod, where no EndpointSlice says what has become of it.
struct Pod {
  PodMetadata metadata;
  std::string address = {};  ///< the first one; empty: it has none yet
  bool ready = false;        ///< it runs, and its condition Ready is true
  bool terminating = false;  ///< it is being deleted

  bool operator==(const Pod&) const = default;
};
[[nodiscard]] Result<Pod> read_pod(const JsonObject& object);

}  // namespace kvist::kubernetes

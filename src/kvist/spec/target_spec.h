// What a live sweep measures, if it is not a deployment that it starts itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/dynamo_target_spec.h"
#include "kvist/spec/exposure_spec.h"

namespace kvist::spec {

/// A worker behind a target, for its counters and to empty its cache.
struct TargetWorkerSpec {
  std::string name;
  std::string url;         ///< http://host:port, with /metrics as vLLM has it
  std::string admin = {};  ///< listener with /reset_prefix_cache; empty: url

  bool operator==(const TargetWorkerSpec&) const = default;
};

/// A running OpenAI-compatible endpoint. What it does not tell stays unknown.
struct TargetSpec {
  std::string url;         ///< http://host:port or https://host:port; empty: the sweep starts its deployment itself
  std::string admin = {};  ///< a kvist gateway's listener for administration; empty: there is none
  std::string model = {};  ///< name in requests
  std::string api_key_file = {};  ///< its first line is sent as a bearer token
  /// The same to the listeners for administration, the target's and its workers'; empty: api_key_file is
  std::string admin_api_key_file = {};
  ClientTlsSpec tls = {};  ///< of all its https URLs
  std::vector<TargetWorkerSpec> workers = {};
  Duration settle = std::chrono::seconds(1);  ///< after a command, and as the proof of idleness where nothing tells it
  std::uint32_t block_size = 16;              ///< tokens that its caches reuse at once, for the bound of reuse
  std::optional<DynamoTargetSpec> dynamo = {};  ///< whose routing mode the sweep sets

  [[nodiscard]] bool is_given() const { return !url.empty(); }
  bool operator==(const TargetSpec&) const = default;
};

}  // namespace kvist::spec

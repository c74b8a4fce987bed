// The routing modes by name.
#pragma once

#include <string_view>

#include "kvist/base/error.h"

namespace kvist::spec {

/// How the gateway chooses a worker.
enum class RoutingMode {
  kRoundRobin,   ///< each worker in turn
  kRandom,       ///< uniform, keyed by request
  kLeastLoaded,  ///< fewest requests in flight
  kKv,           ///< KV-cache-aware
  kDynamo,       ///< NVIDIA Dynamo's published KV cost, kept as a baseline
};

/// Canonical name: "round_robin".
[[nodiscard]] std::string_view to_string(RoutingMode mode);
/// Accepts canonical names and aliases ("round-robin", "kv_aware", "kv-aware", "least-loaded", any case); the error
/// lists the canonical ones.
[[nodiscard]] Result<RoutingMode> parse_routing_mode(std::string_view text);

}  // namespace kvist::spec

// The routing modes by name.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::spec {

/// How the gateway chooses a worker.
enum class RoutingMode {
  kRoundRobin,   ///< each worker in turn
  kRandom,       ///< uniform, keyed by request
  kLeastLoaded,  ///< fewest requests in flight
  kKv,           ///< KV-cache-aware
  kDynamo,       ///< NVIDIA Dynamo's published KV cost, kept as a baseline; so are those below
  kPowerOfTwo,   ///< of two workers at random, the one with fewer requests in flight
  kSglang,       ///< SGLang's cache-aware thresholds
  kBoundedHash,  ///< consistent hashing of the prompt's beginning, with bounded loads
  kSession,      ///< consistent hashing of the session
  kVllmKvAware,  ///< vLLM's router: most cached blocks, else least loaded
  kSmg,          ///< smg's cache-aware thresholds, asked request by request
  kLlmD,         ///< llm-d's mix of scores: queue, KV memory, prefix
  kLmetric,      ///< LMetric's product of prefill tokens and requests
  kSmetric,      ///< SMetric: the session's worker while a limit of TTFT is met
  kPreble,       ///< Preble's E2
  kClairvoyant,  ///< kKv with the true state of the workers instead of forecasts, which only a simulation knows
};

/// Every mode, at the position of its value.
inline constexpr std::array kRoutingModes = {
    RoutingMode::kRoundRobin, RoutingMode::kRandom,      RoutingMode::kLeastLoaded, RoutingMode::kKv,
    RoutingMode::kDynamo,     RoutingMode::kPowerOfTwo,  RoutingMode::kSglang,      RoutingMode::kBoundedHash,
    RoutingMode::kSession,    RoutingMode::kVllmKvAware, RoutingMode::kSmg,         RoutingMode::kLlmD,
    RoutingMode::kLmetric,    RoutingMode::kSmetric,     RoutingMode::kPreble,      RoutingMode::kClairvoyant};
inline constexpr std::size_t kRoutingModeCount = kRoutingModes.size();

/// Whether the mode decides by what only a simulation can know, so that no live gateway has it.
[[nodiscard]] constexpr bool is_simulated_only(RoutingMode mode) {
  return mode == RoutingMode::kClairvoyant;
}

/// Canonical name: "round_robin".
[[nodiscard]] std::string_view to_string(RoutingMode mode);
/// Accepts canonical names and aliases, in any case and with '-' or ' ' for '_': those of other gateways for what is
/// the same policy here ("kv-aware", "least-load", "cache_aware", "prefix_hash"). The error lists the canonical ones.
[[nodiscard]] Result<RoutingMode> parse_routing_mode(std::string_view text);
/// A mode that a live gateway has. Errors: is_simulated_only(), with what it is for.
[[nodiscard]] Result<RoutingMode> require_live(RoutingMode mode);
/// Both: the error lists, and proposes, only what a live gateway has.
[[nodiscard]] Result<RoutingMode> parse_live_routing_mode(std::string_view text);

}  // namespace kvist::spec

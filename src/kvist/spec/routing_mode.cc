#include "kvist/spec/routing_mode.h"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kvist/base/closest_name.h"

namespace kvist::spec {
namespace {

struct ModeName {
  std::string_view name;
  RoutingMode mode;
};

constexpr std::array kNames = {ModeName{"round_robin", RoutingMode::kRoundRobin},
                               ModeName{"random", RoutingMode::kRandom},
                               ModeName{"least_loaded", RoutingMode::kLeastLoaded},
                               ModeName{"kv", RoutingMode::kKv},
                               ModeName{"dynamo", RoutingMode::kDynamo},
                               ModeName{"power_of_two", RoutingMode::kPowerOfTwo},
                               ModeName{"sglang", RoutingMode::kSglang},
                               ModeName{"bounded_hash", RoutingMode::kBoundedHash},
                               ModeName{"session", RoutingMode::kSession},
                               ModeName{"vllm_kv_aware", RoutingMode::kVllmKvAware},
                               ModeName{"smg", RoutingMode::kSmg},
                               ModeName{"llm_d", RoutingMode::kLlmD},
                               ModeName{"lmetric", RoutingMode::kLmetric},
                               ModeName{"smetric", RoutingMode::kSmetric},
                               ModeName{"preble", RoutingMode::kPreble},
                               ModeName{"clairvoyant", RoutingMode::kClairvoyant}};
static_assert(kNames.size() == kRoutingModeCount);

// The names of other gateways: smg and SGLang's gateway, vLLM's production-stack and router, llm-d, AIBrix, KubeAI.
// consistent_hashing of smg and vLLM is keyed by a header of the client, so it is `session` here.
constexpr std::array kAliases = {ModeName{"roundrobin", RoutingMode::kRoundRobin},
                                 ModeName{"rr", RoutingMode::kRoundRobin},
                                 ModeName{"leastloaded", RoutingMode::kLeastLoaded},
                                 ModeName{"least_load", RoutingMode::kLeastLoaded},
                                 ModeName{"leastload", RoutingMode::kLeastLoaded},
                                 ModeName{"least_request", RoutingMode::kLeastLoaded},
                                 ModeName{"active_request_scorer", RoutingMode::kLeastLoaded},
                                 ModeName{"kv_aware", RoutingMode::kKv},
                                 ModeName{"kvaware", RoutingMode::kKv},
                                 ModeName{"kv_cache_aware", RoutingMode::kKv},
                                 ModeName{"precise_prefix_cache_scorer", RoutingMode::kKv},
                                 ModeName{"p2c", RoutingMode::kPowerOfTwo},
                                 ModeName{"power_of_two_choices", RoutingMode::kPowerOfTwo},
                                 ModeName{"cache_aware", RoutingMode::kSglang},
                                 ModeName{"sglang_cache_aware", RoutingMode::kSglang},
                                 ModeName{"chwbl", RoutingMode::kBoundedHash},
                                 ModeName{"prefix_hash", RoutingMode::kBoundedHash},
                                 ModeName{"prefixhash", RoutingMode::kBoundedHash},
                                 ModeName{"session_sticky", RoutingMode::kSession},
                                 ModeName{"session_affinity", RoutingMode::kSession},
                                 ModeName{"session_affinity_scorer", RoutingMode::kSession},
                                 ModeName{"consistent_hash", RoutingMode::kSession},
                                 ModeName{"consistent_hashing", RoutingMode::kSession},
                                 ModeName{"prefix_cache_scorer", RoutingMode::kLlmD},
                                 ModeName{"smg_cache_aware", RoutingMode::kSmg},
                                 ModeName{"preble_e2", RoutingMode::kPreble}};

/// In lower case and with '-' and ' ' as '_', so that "KV-Aware" and "kv_aware" are the same name.
std::string normalised(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') {
      result += static_cast<char>(c - 'A' + 'a');
    } else {
      result += c == '-' || c == ' ' ? '_' : c;
    }
  }
  return result;
}

std::optional<RoutingMode> mode_called(std::string_view name) {
  for (const ModeName& entry : kNames) {
    if (entry.name == name) return entry.mode;
  }
  for (const ModeName& entry : kAliases) {
    if (entry.name == name) return entry.mode;
  }
  return std::nullopt;
}

std::unexpected<Error> unknown_mode(std::string_view text, bool live) {
  std::vector<std::string> known;
  for (const ModeName& entry : kNames) {
    if (!live || !is_simulated_only(entry.mode)) known.emplace_back(entry.name);
  }
  const std::string meant = did_you_mean(normalised(text), known);
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("unknown routing mode \"{}\"{} modes are: {}", text, meant.empty() ? "; the" : meant + " The",
                          fmt::join(known, ", ")));
}

}  // namespace

std::string_view to_string(RoutingMode mode) {
  for (const ModeName& entry : kNames) {
    if (entry.mode == mode) return entry.name;
  }
  return "unknown";
}

Result<RoutingMode> parse_routing_mode(std::string_view text) {
  if (const auto mode = mode_called(normalised(text))) return *mode;
  return unknown_mode(text, false);
}

Result<RoutingMode> parse_live_routing_mode(std::string_view text) {
  if (const auto mode = mode_called(normalised(text))) return require_live(*mode);
  return unknown_mode(text, true);
}

Result<RoutingMode> require_live(RoutingMode mode) {
  if (!is_simulated_only(mode)) return mode;
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("routing mode {} decides by what only a simulation knows of the workers: it is for the `modes` "
                  "of `kvist simulate`, not for a gateway",
                  to_string(mode)));
}

}  // namespace kvist::spec

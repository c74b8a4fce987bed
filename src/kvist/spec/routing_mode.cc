#include "kvist/spec/routing_mode.h"

#include <array>
#include <string>

#include <fmt/format.h>

namespace kvist::spec {
namespace {

struct ModeName {
  std::string_view name;
  RoutingMode mode;
};

constexpr std::array kNames = {ModeName{"round_robin", RoutingMode::kRoundRobin},
                               ModeName{"random", RoutingMode::kRandom},
                               ModeName{"least_loaded", RoutingMode::kLeastLoaded}, ModeName{"kv", RoutingMode::kKv},
                               ModeName{"dynamo", RoutingMode::kDynamo}};
constexpr std::array kAliases = {ModeName{"roundrobin", RoutingMode::kRoundRobin},
                                 ModeName{"rr", RoutingMode::kRoundRobin},
                                 ModeName{"leastloaded", RoutingMode::kLeastLoaded},
                                 ModeName{"kv_aware", RoutingMode::kKv}, ModeName{"kv_cache_aware", RoutingMode::kKv}};

/// Lower case, '-' and ' ' as '_': "KV-Aware" and "kv_aware" are one name.
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

}  // namespace

std::string_view to_string(RoutingMode mode) {
  for (const ModeName& entry : kNames) {
    if (entry.mode == mode) return entry.name;
  }
  return "unknown";
}

Result<RoutingMode> parse_routing_mode(std::string_view text) {
  const std::string name = normalised(text);
  for (const ModeName& entry : kNames) {
    if (entry.name == name) return entry.mode;
  }
  for (const ModeName& entry : kAliases) {
    if (entry.name == name) return entry.mode;
  }
  std::string known;
  for (const ModeName& entry : kNames) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  return fail(ErrorCode::kInvalidArgument, fmt::format("unknown routing mode \"{}\"; known: {}", text, known));
}

}  // namespace kvist::spec

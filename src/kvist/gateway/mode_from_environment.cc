#include "kvist/gateway/mode_from_environment.h"

#include <cstdlib>
#include <utility>

namespace kvist::gateway {

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<spec::RoutingMode> mode_from_environment(const Environment& environment, spec::RoutingMode configured) {
  for (const char* name : {"KVIST_ROUTER_MODE", "DYN_ROUTER_MODE"}) {
    const auto value = environment(name);
    if (!value || value->empty()) continue;
    auto mode = spec::parse_live_routing_mode(*value);
    if (!mode) return std::unexpected(std::move(mode).error().in(std::string("environment variable ") + name));
    return mode;
  }
  return configured;
}

}  // namespace kvist::gateway

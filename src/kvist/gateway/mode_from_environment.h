// The routing mode that the environment asks for.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::gateway {

/// Looks up a variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] std::optional<std::string> process_environment(const char* name);

/// The mode in KVIST_ROUTER_MODE; if that is unset or empty, the one in DYN_ROUTER_MODE, otherwise `configured`. A
/// value that is not a mode is an error, which names the variable.
[[nodiscard]] Result<spec::RoutingMode> mode_from_environment(const Environment& environment,
                                                              spec::RoutingMode configured);

}  // namespace kvist::gateway

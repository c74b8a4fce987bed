// The routing mode that the environment asks for.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/spec/routing_mode.h"

namespace kvist::gateway {

/// Looks a variable up; nothing where it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] std::optional<std::string> process_environment(const char* name);

/// `configured`, unless KVIST_ROUTER_MODE or, without that, DYN_ROUTER_MODE is set and not empty. A value that is no
/// mode is an error that names the variable.
[[nodiscard]] Result<spec::RoutingMode> mode_from_environment(const Environment& environment,
                                                              spec::RoutingMode configured);

}  // namespace kvist::gateway

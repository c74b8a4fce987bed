// Durations on the command line.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"

namespace kvist::cli {

/// "30s", "1.5 min" as the YAML files have it. Errors name `option`.
[[nodiscard]] Result<Duration> parse_duration(const std::string& text, std::string_view option);

}  // namespace kvist::cli

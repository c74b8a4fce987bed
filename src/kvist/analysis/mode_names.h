// The names of routing modes in reports.
#pragma once

#include <string>
#include <string_view>

#include "kvist/spec/routing_mode.h"

namespace kvist::analysis {

/// In column heads: "RR" and "KV" as published, otherwise the mode's own name.
[[nodiscard]] std::string short_name(spec::RoutingMode mode);
/// In running text: "Round-robin", "KV cache-aware".
[[nodiscard]] std::string_view long_name(spec::RoutingMode mode);
/// In titles of two-mode documents: "Round-Robin", "KV Cache Routing".
[[nodiscard]] std::string_view title_name(spec::RoutingMode mode);
/// In titles of single-mode documents: "Round-robin", "KV-aware".
[[nodiscard]] std::string_view single_mode_name(spec::RoutingMode mode);
/// The key of a mode's figures in published JSON: "round_robin", "kv_aware".
[[nodiscard]] std::string_view json_key(spec::RoutingMode mode);

}  // namespace kvist::analysis

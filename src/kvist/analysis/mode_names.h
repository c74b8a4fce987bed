// The names of arms in reports.
#pragma once

#include <string>
#include <string_view>

#include "kvist/spec/arm.h"

namespace kvist::analysis {

/// In column heads: "RR" and "KV" as published, otherwise the mode's own name.
[[nodiscard]] std::string short_name(const spec::Arm& arm);
/// In running text: "Round-robin", "KV cache-aware"; for an arm that is not a routing mode its own name. The view is
/// valid as long as the arm, as are the next three.
[[nodiscard]] std::string_view long_name(const spec::Arm& arm);
/// In titles of two-mode documents: "Round-Robin", "KV Cache Routing".
[[nodiscard]] std::string_view title_name(const spec::Arm& arm);
/// In titles of single-mode documents: "Round-robin", "KV-aware".
[[nodiscard]] std::string_view single_mode_name(const spec::Arm& arm);
/// The key of a mode's figures in published JSON: "round_robin", "kv_aware".
[[nodiscard]] std::string_view json_key(const spec::Arm& arm);

}  // namespace kvist::analysis

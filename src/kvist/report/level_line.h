// A measured level in one line of a terminal.
#pragma once

#include <string>

#include "kvist/analysis/repetitions.h"

namespace kvist::report {

/// "TTFT p50 31.4ms (30.9 to 32.0), p95 ..., ITL p50 ..., p95 ..., 812 (801 to 824) tokens/s; client valid": exact
/// figures with their 95 % intervals, and what the load generator says of itself, with its reasons if it is not valid.
[[nodiscard]] std::string level_line(const analysis::MeasuredLevel& level);

}  // namespace kvist::report

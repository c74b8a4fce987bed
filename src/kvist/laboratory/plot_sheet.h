// Plots described as JSON become one SVG: for scripts that have figures and no renderer.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::laboratory {

/// Draws
///   {"columns": 2, "plots": [{"title": "TTFT p95", "x_title": "load", "y_title": "ms", "logarithmic": true,
///                             "series": [{"name": "kv", "colour": 1, "dashed": false, "points": [[30, 512.5],
///                             ...]}]}]}
/// where all plots have the same series. The x values are levels, evenly spaced; a y value of null interrupts the line.
/// Errors: what is no such JSON, with its place.
[[nodiscard]] Result<std::string> plot_sheet(std::string_view json);

}  // namespace kvist::laboratory

// A service-level objective: upper limits of a level's figures.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/level_figures.h"

namespace kvist::planning {

/// The figure must not exceed the limit, in the metric's unit.
struct Objective {
  Metric metric = Metric::kTtftP95;
  double limit = 0;

  bool operator==(const Objective&) const = default;
};

/// Objectives that must all hold. Invariant: it is not empty and has no metric twice.
using Slo = std::vector<Objective>;

/// "ttft_p95=600ms,tpot_p95=60ms,error=1%": names ttft_p50, ttft_p95, tpot_p50, tpot_p95, latency_p50, latency_p95 with
/// a duration, error with a percentage. Errors name the part and what would be right.
[[nodiscard]] Result<Slo> parse_slo(std::string_view text);
/// Adds a limit on errors if the SLO has none, because a level with failed requests does not satisfy it.
[[nodiscard]] Slo with_error_limit(Slo slo, double max_error_pct);
/// The SLO as text, in the form that parse_slo() reads.
[[nodiscard]] std::string to_string(const Slo& slo);
/// "TTFT p95 <= 600 ms".
[[nodiscard]] std::string to_string(const Objective& objective);

}  // namespace kvist::planning

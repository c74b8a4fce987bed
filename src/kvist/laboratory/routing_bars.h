// Evaluates the bars of a routing policy for a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/comparison.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/laboratory/expression.h"
#include "kvist/laboratory/routing_spec.h"

namespace kvist::laboratory {

/// The figures of one level that a bar can use: the published keys with a mode, ttft_p95_ms(dynamo), as means over the
/// seeds; and of the candidate against the baseline ratio(KEY), low(KEY), high(KEY): the paired change and its interval
/// (of kv_hit_rate_pct in points); not_worse(KEY), better(KEY): 1 or 0. A mode or a level that was not measured is a
/// missing value. The result refers to the arguments.
[[nodiscard]] Figures level_figures(const analysis::RunAnalysis& run, const analysis::RunComparison& comparison,
                                    spec::RoutingMode candidate, std::uint32_t level);

/// One bar at one level.
struct BarOutcome {
  const DemandedBar* demanded = nullptr;
  std::uint32_t level = 0;
  std::optional<bool> holds;  ///< nothing if not measured
  std::string shows;          ///< evidence
};

/// Evaluates every bar of the scenario at every measured level, in the order of the bars. The outcomes refer to
/// `scenario`. Errors: an invalid predicate, with the bar's id.
[[nodiscard]] Result<std::vector<BarOutcome>> hold_bars(const RoutingScenario& scenario, spec::RoutingMode candidate,
                                                        const analysis::RunAnalysis& run,
                                                        const analysis::RunComparison& comparison);

[[nodiscard]] std::size_t count(const std::vector<BarOutcome>& outcomes, std::optional<bool> holds);

}  // namespace kvist::laboratory

// What is demanded of a routing policy, held against a run.
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

/// The figures of one level that a bar speaks of: the published keys with a mode, ttft_p95_ms(dynamo), as means over
/// the seeds; and of the candidate against the baseline ratio(KEY), low(KEY), high(KEY): the paired change and its
/// interval (of kv_hit_rate_pct in points); not_worse(KEY), better(KEY): 1 or 0. A mode or a level that was not
/// measured is a missing value.
/// Refers to its arguments.
[[nodiscard]] Figures level_figures(const analysis::RunAnalysis& run, const analysis::RunComparison& comparison,
                                    spec::RoutingMode candidate, std::uint32_t level);

/// One bar at one level.
struct BarOutcome {
  const DemandedBar* demanded = nullptr;
  std::uint32_t level = 0;
  std::optional<bool> holds;  ///< nothing: not measured
  std::string shows;          ///< evidence
};

/// Every demanded bar at every measured level, by bar. The outcomes refer to `scenario`. Errors: a predicate that does
/// not read, with the bar's id.
[[nodiscard]] Result<std::vector<BarOutcome>> hold_bars(const RoutingScenario& scenario, spec::RoutingMode candidate,
                                                        const analysis::RunAnalysis& run,
                                                        const analysis::RunComparison& comparison);

[[nodiscard]] std::size_t count(const std::vector<BarOutcome>& outcomes, std::optional<bool> holds);

}  // namespace kvist::laboratory

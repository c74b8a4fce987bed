// A capacity plan as terminal text, JSON and a self-contained page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/planning/capacity.h"
#include "kvist/planning/knobs.h"
#include "kvist/planning/slo.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

/// The questions and results of a plan.
struct CapacityPlan {
  spec::SweepSpec sweep;
  Slo slo;
  double confidence = 0.95;
  bool same_requests = false;  ///< JudgeOptions::same_requests: intervals are over blocks of time
  /// The search's limit, if it is that of the trace (TraceLimit).
  std::optional<std::uint32_t> trace_ends_above = {};
  bool is_measured = false;           ///< on a live deployment or target; otherwise simulated
  std::vector<Capacity> capacities;   ///< one per mode
  std::vector<WorkersNeeded> needed;  ///< one per mode, if a number of users was given
  std::vector<KnobTable> knobs;       ///< if asked for: one table, of the mode with most users
};

/// Why the plan is not complete; empty if it is: a figure was not measured.
[[nodiscard]] std::string gaps_of(const CapacityPlan& plan);
/// Tables and remarks for a terminal.
[[nodiscard]] std::string plan_text(const CapacityPlan& plan);
/// One object; docs/guide/planning.md describes its keys.
[[nodiscard]] std::string plan_json(const CapacityPlan& plan);
/// In the layout of the published plan: what to run, what is limited, what to change and what to expect.
[[nodiscard]] std::string plan_markdown(const CapacityPlan& plan);
/// Tables, and a plot of each limited figure over the users with its limit.
[[nodiscard]] std::string plan_html(const CapacityPlan& plan);

}  // namespace kvist::planning

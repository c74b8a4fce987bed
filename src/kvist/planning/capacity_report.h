// A capacity plan for people and programs: terminal text, JSON, a self-contained page.
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

/// Everything that was asked and found.
struct CapacityPlan {
  spec::SweepSpec sweep;
  Slo slo;
  double confidence = 0.95;
  std::vector<Capacity> capacities;   ///< one per mode
  std::vector<WorkersNeeded> needed;  ///< one per mode, where a number of users was given
  std::vector<KnobTable> knobs;       ///< where it was asked for: one, of the mode that holds most users
};

/// Tables and sentences, aligned for a terminal.
[[nodiscard]] std::string plan_text(const CapacityPlan& plan);
/// One object; docs/guide/planning.md describes its keys.
[[nodiscard]] std::string plan_json(const CapacityPlan& plan);
/// Tables, and each limited figure over the users with its limit.
[[nodiscard]] std::string plan_html(const CapacityPlan& plan);

}  // namespace kvist::planning

// Private to planning: the tables of a capacity plan.
#pragma once

#include "kvist/planning/capacity_report.h"
#include "kvist/render/table.h"

namespace kvist::planning {

/// A row per mode: users, interval, per GPU, what limits.
[[nodiscard]] render::Table capacity_table(const CapacityPlan& plan);
/// A row per mode: workers for a number of users.
[[nodiscard]] render::Table workers_table(const CapacityPlan& plan);
/// A row per change, by gain.
[[nodiscard]] render::Table knob_table(const KnobTable& knobs);
/// A row per level looked at: the limited figures with their bounds, and the verdict.
[[nodiscard]] render::Table level_table(const Capacity& capacity, const Slo& slo);
/// "192 and 200 users": levels above the answer where the SLO holds again; empty if there are none.
[[nodiscard]] std::string islands_text(const Capacity& capacity);

}  // namespace kvist::planning

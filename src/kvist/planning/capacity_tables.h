// Private to planning: the tables and texts of a capacity plan.
#pragma once

#include "kvist/planning/capacity_report.h"
#include "kvist/render/table.h"

namespace kvist::planning {

/// "TTFT p95 <= 600 ms, Errors <= 5 %".
[[nodiscard]] std::string slo_text(const Slo& slo);
/// How the levels were measured or simulated, in words.
[[nodiscard]] std::string method_text(const CapacityPlan& plan);
/// What a reader of the tables must know beside them.
[[nodiscard]] std::vector<std::string> remarks_of(const CapacityPlan& plan);
[[nodiscard]] std::vector<std::string> worker_remarks_of(const CapacityPlan& plan);
[[nodiscard]] std::string knobs_title(const KnobTable& knobs);

/// A row per mode: users, interval, per GPU, what limits.
[[nodiscard]] render::Table capacity_table(const CapacityPlan& plan);
/// A row per mode: workers for a number of users.
[[nodiscard]] render::Table workers_table(const CapacityPlan& plan);
/// A row per change, by gain.
[[nodiscard]] render::Table knob_table(const KnobTable& knobs);
/// Whether a gain has no interval, because one of the two capacities has none.
[[nodiscard]] bool lacks_interval(const KnobTable& knobs, const KnobGain& gain);
/// "+80 to +127", "+80 or more" where a search ended at its limit; "none" where it has no interval.
[[nodiscard]] std::string gain_interval_text(const KnobTable& knobs, const KnobGain& gain);
/// A row per level looked at: the limited figures with their bounds, and the verdict.
[[nodiscard]] render::Table level_table(const Capacity& capacity, const Slo& slo);
/// "TTFT p95 (ms)", "Output tokens/s": the head of a column.
[[nodiscard]] std::string title_with_unit(Headline figure);
/// "192 and 200 users": levels above the answer where the SLO holds again; empty if there are none.
[[nodiscard]] std::string islands_text(const Capacity& capacity);

}  // namespace kvist::planning

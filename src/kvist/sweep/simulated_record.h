// Converts the outcome of a simulated level to the record of a live one.
#pragma once

#include "kvist/results/records.h"
#include "kvist/simulation/level.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/plan.h"

namespace kvist::sweep {

/// The record without turns, which were stored while the level ran. Workers' counters are differences between two idle
/// states and their gauges those at the snapshots, as summarise_workers() takes them from a live deployment. The client
/// is never late in virtual time, so its health is zero. The level starts at 0 and has no time of day.
[[nodiscard]] results::LevelRecord record_of(const spec::SweepSpec& sweep, const PlannedLevel& level,
                                             const simulation::LevelOutcome& outcome);

}  // namespace kvist::sweep

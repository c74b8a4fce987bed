// From the outcome of a simulated level to the record a live one leaves.
#pragma once

#include "kvist/results/records.h"
#include "kvist/simulation/level.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/plan.h"

namespace kvist::sweep {

/// Everything of the record but the turns, which went to the store while the level ran. Counters of the workers are
/// differences between idle and idle, their gauges those at the snapshots, as summarise_workers() takes them from a
/// live deployment. The client is never late in virtual time: its health is zero. The level starts at 0 and at no time
/// of day.
[[nodiscard]] results::LevelRecord record_of(const spec::SweepSpec& sweep, const PlannedLevel& level,
                                             const simulation::LevelOutcome& outcome);

}  // namespace kvist::sweep

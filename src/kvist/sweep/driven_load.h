// What a load was, from its samples.
#pragma once

#include <vector>

#include "kvist/base/time.h"
#include "kvist/loadgen/calibration.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::sweep {

/// Events (content chunks) that were read and turns that ended from `from` to `to`, per second; nothing if no time lies
/// between. Samples do not tell the number of streams.
[[nodiscard]] loadgen::DrivenLoad driven_load(const std::vector<workload::TurnSample>& turns, TimePoint from,
                                              TimePoint to);

}  // namespace kvist::sweep

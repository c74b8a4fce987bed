// A snapshot of the published method, from samples.
#pragma once

#include <span>

#include "kvist/base/time.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::workload {

/// What Recorder::snapshot() of a recorder that had seen all these turns would have said at `at`: for parts of a load
/// that were recorded apart. Turns that ended later count by what had come of them by then. Requires: the samples have
/// their gaps.
[[nodiscard]] Snapshot past_snapshot(std::span<const TurnSample> turns, TimePoint at, Duration window);

}  // namespace kvist::workload

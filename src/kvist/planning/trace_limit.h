// How far a plan may speed up a trace.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/base/time.h"
#include "kvist/spec/sweep.h"
#include "kvist/workload/load_input.h"

namespace kvist::planning {

/// Where an open trace becomes too short for a level.
struct TraceLimit {
  /// The highest level, in percent of the recorded rate, at which the trace lasts through warm-up and window; 0: none.
  std::uint32_t level = 0;
  Duration lasts{};  ///< the trace at `speed`, at 100 percent
  Duration needs{};  ///< warm-up and window of a level
};

/// Nothing where no trace is replayed in an open loop: then levels do not speed it up. Requires: `input` is the
/// sweep's.
[[nodiscard]] std::optional<TraceLimit> trace_limit(const spec::SweepSpec& sweep, const workload::LoadInput& input);

}  // namespace kvist::planning

// What must be known about a sweep before it begins.
#pragma once

#include "kvist/base/error.h"
#include "kvist/spec/sweep.h"
#include "kvist/workload/load_input.h"

namespace kvist::sweep {

struct ResolvedSweep {
  spec::SweepSpec spec;       ///< with everything filled in that the workers' profiles decide (perfmodel::resolve)
  workload::LoadInput input;  ///< what the workload replays, where it names a trace
};

/// Errors: a workload that cannot be driven, a trace that does not read, a profile that does not exist, a memory plan
/// that does not fit, each with the worker's name.
[[nodiscard]] Result<ResolvedSweep> resolve(const spec::SweepSpec& sweep);

}  // namespace kvist::sweep

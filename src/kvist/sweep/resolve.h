// The parts of a sweep that are determined before it begins.
#pragma once

#include "kvist/base/error.h"
#include "kvist/spec/sweep.h"
#include "kvist/workload/load_input.h"

namespace kvist::sweep {

struct ResolvedSweep {
  spec::SweepSpec spec;       ///< with all settings that follow from the workers' profiles (perfmodel::resolve)
  workload::LoadInput input;  ///< the trace that the workload replays, if any
};

/// Errors: a workload that cannot be driven, an unreadable trace, a profile that does not exist, a memory plan that
/// does not fit, each with the worker's name.
[[nodiscard]] Result<ResolvedSweep> resolve(const spec::SweepSpec& sweep);

}  // namespace kvist::sweep

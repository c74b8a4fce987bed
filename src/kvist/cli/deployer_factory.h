// What a live sweep measures: local processes, or a target that runs already.
#pragma once

#include "kvist/base/error.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/live_levels.h"

namespace kvist::cli {

/// Errors: a target whose key cannot be read.
[[nodiscard]] Result<sweep::DeployerFactory> deployer_factory(const spec::SweepSpec& sweep);

}  // namespace kvist::cli

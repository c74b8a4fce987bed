// Prints the outcome of a sweep.
#pragma once

#include "kvist/base/error.h"
#include "kvist/sweep/sweep_outcome.h"

namespace kvist::cli {

/// Prints the main table and the paths of the files; nothing if no level was finished.
void print_outcome(const sweep::SweepOutcome& outcome);

/// Success, or why the sweep ended early and after how many levels.
[[nodiscard]] Result<void> result_of(const sweep::SweepOutcome& outcome);

}  // namespace kvist::cli

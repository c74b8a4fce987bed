// What a sweep left behind, for the user.
#pragma once

#include "kvist/base/error.h"
#include "kvist/sweep/sweep_outcome.h"

namespace kvist::cli {

/// The main table and where the files are; nothing where no level was finished.
void print_outcome(const sweep::SweepOutcome& outcome);

/// Success, or why the sweep ended early and after how many levels.
[[nodiscard]] Result<void> result_of(const sweep::SweepOutcome& outcome);

}  // namespace kvist::cli

// Private to cli: results beside each other.
#pragma once

#include "kvist/base/error.h"
#include "kvist/cli/commands.h"

namespace kvist::cli {

/// `kvist report compare --runs`: later results against the first.
[[nodiscard]] Result<void> compare_runs_of(const ReportCompareArguments& arguments);

}  // namespace kvist::cli

// The main table for a terminal.
#pragma once

#include <string>

#include "kvist/analysis/run_analysis.h"

namespace kvist::report {

/// A row per level and mode, times as measured, and a line on the time scale where it is not 1.
[[nodiscard]] std::string terminal_table(const analysis::RunAnalysis& analysis);

}  // namespace kvist::report

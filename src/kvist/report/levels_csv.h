// The figures of a run's levels for a spreadsheet.
#pragma once

#include <string>

#include "kvist/analysis/run_analysis.h"

namespace kvist::report {

/// CSV (RFC 4180, without quotes) with a head: a line per level, and of each headline figure the value and the ends of
/// its 95 % interval; what is unknown is empty. docs/formats/levels-csv.md has the columns.
[[nodiscard]] std::string levels_csv(const analysis::RunAnalysis& analysis);

}  // namespace kvist::report

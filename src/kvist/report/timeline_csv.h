// timeline.csv: every reading of every worker, for a spreadsheet.
#pragma once

#include <string>

#include "kvist/results/records.h"

namespace kvist::report {

/// The header line of the file, with its line end.
[[nodiscard]] std::string timeline_csv_head();
/// Appends one line per worker and reading of a level (docs/formats/timeline-csv.md).
void append_timeline_csv(std::string& out, const results::LevelRecord& level);

}  // namespace kvist::report

// The outcome of a sweep, live or simulated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "kvist/base/error.h"
#include "kvist/report/report.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"

namespace kvist::sweep {

struct SweepOutcome {
  std::string directory;  ///< results.sqlite, report.md, report.json, report.html, levels.csv; of a live sweep logs/
  std::size_t levels_done = 0;
  std::size_t levels_planned = 0;
  std::optional<report::ReportFiles> files;  ///< nothing if no level was finished
  std::string table;                         ///< for a terminal
  std::optional<Error> failure;              ///< why the sweep ended early
};

/// Writes the report of a finished run into the outcome's directory and fills in `files` and `table`. The report is
/// made from the database, so that it shows what was stored.
[[nodiscard]] Result<void> report_outcome(const results::Store& store, std::int64_t run, const spec::SweepSpec& sweep,
                                          SweepOutcome& outcome);

}  // namespace kvist::sweep

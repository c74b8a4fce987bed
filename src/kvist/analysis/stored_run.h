// Reads runs of a database level by level and analyses them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// Returns the levels of a run one after the other, and nothing after the last.
using LevelSource = std::function<Result<std::optional<results::LevelRecord>>()>;

/// A run of a database and its specification, level by level.
struct StoredRun {
  results::RunRecord header;  ///< without levels
  spec::SweepSpec sweep;
  LevelSource next_level;  ///< refers to the store, which has to outlive it
};
/// Opens a run. `with_timelines`: load the timelines too. Errors: no such run, no finished level, an unreadable
/// specification.
[[nodiscard]] Result<StoredRun> open_run(const results::Store& store, std::int64_t run, bool with_timelines = true);
/// Reads all levels of a run and analyses them.
[[nodiscard]] Result<RunAnalysis> analyse_run(const StoredRun& run);

/// The paths of the databases that a place stands for: `place` itself, results.sqlite in that folder, or else those in
/// its subfolders, the one written last at the end. Names do not say which that is: they begin with the sweep's.
/// Errors: there is none.
[[nodiscard]] Result<std::vector<std::string>> find_databases(const std::filesystem::path& place);
/// The last of these.
[[nodiscard]] Result<std::string> find_database(const std::filesystem::path& place);

/// The last run of a database (find_database), analysed; no timelines.
[[nodiscard]] Result<RunAnalysis> load_analysis(const std::filesystem::path& place);

}  // namespace kvist::analysis

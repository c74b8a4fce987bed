// Runs of a database, read level by level, and analysed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// The levels of a run one after the other; nothing after the last.
using LevelSource = std::function<Result<std::optional<results::LevelRecord>>()>;

/// A run of a database and its specification, level by level.
struct StoredRun {
  results::RunRecord header;  ///< without levels
  spec::SweepSpec sweep;
  LevelSource next_level;  ///< refers to the store
};
/// Errors: no such run, no finished level, a specification that does not read. `with_timelines`: load those too.
[[nodiscard]] Result<StoredRun> open_run(const results::Store& store, std::int64_t run, bool with_timelines = true);
/// Reads all levels of a run and analyses them.
[[nodiscard]] Result<RunAnalysis> analyse_run(const StoredRun& run);

/// A database, or results.sqlite in a folder, or in the last of its subfolders (their names end with the time) that has
/// one.
[[nodiscard]] Result<std::string> find_database(const std::filesystem::path& place);

/// The last run of a database, analysed; no timelines.
[[nodiscard]] Result<RunAnalysis> load_analysis(const std::filesystem::path& place);

}  // namespace kvist::analysis

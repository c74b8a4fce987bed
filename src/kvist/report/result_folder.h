// Results where a command has put them.
#pragma once

#include <filesystem>
#include <string>

#include "kvist/base/error.h"
#include "kvist/report/run_analysis.h"

namespace kvist::report {

/// A database, or results.sqlite in a folder, or in the last of its subfolders (their names end with the time) that has
/// one.
[[nodiscard]] Result<std::string> find_database(const std::filesystem::path& place);

/// The last run of a database, analysed; no timelines.
[[nodiscard]] Result<RunAnalysis> load_analysis(const std::filesystem::path& place);

}  // namespace kvist::report

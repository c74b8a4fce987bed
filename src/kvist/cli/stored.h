// Stored results on the command line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/results/store.h"

namespace kvist::cli {

/// The path of a results database, or of that of a folder (analysis::find_database). If there were several to choose
/// from, standard error is told which one it is.
[[nodiscard]] Result<std::string> chosen_database(const std::string& place);
/// The last run of that database, analysed; no timelines.
[[nodiscard]] Result<analysis::RunAnalysis> analysis_of(const std::string& place);
/// Opens that database to read it.
[[nodiscard]] Result<std::unique_ptr<results::Store>> open_existing(const std::string& path);

/// The requested run, or the last one. Errors: no such run, with the existing ones.
[[nodiscard]] Result<std::int64_t> chosen_run(const results::Store& store, const std::string& path,
                                              std::optional<std::int64_t> wanted);

/// Creates a folder and its parents.
[[nodiscard]] Result<void> make_folder(const std::string& path);

}  // namespace kvist::cli

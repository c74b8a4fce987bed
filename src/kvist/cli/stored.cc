#include "kvist/cli/stored.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "kvist/analysis/stored_run.h"

namespace kvist::cli {

Result<std::string> chosen_database(const std::string& place) {
  KVIST_TRY(const std::vector<std::string> paths, analysis::find_databases(place));
  if (paths.size() > 1)
    fmt::print(stderr, "{}: holds {} results; taken is {}, written last\n", place, paths.size(), paths.back());
  return paths.back();
}

Result<analysis::RunAnalysis> analysis_of(const std::string& place) {
  KVIST_TRY(const std::string database, chosen_database(place));
  return analysis::load_analysis(database);
}

Result<std::unique_ptr<results::Store>> open_existing(const std::string& path) {
  KVIST_TRY(const std::string database, chosen_database(path));
  return results::Store::open_to_read(database);
}

Result<std::int64_t> chosen_run(const results::Store& store, const std::string& path,
                                std::optional<std::int64_t> wanted) {
  KVIST_TRY(const std::vector<std::int64_t> runs, store.runs());
  if (runs.empty()) return fail(ErrorCode::kNotFound, path + ": holds no run");
  if (!wanted) return runs.back();
  if (std::ranges::find(runs, *wanted) != runs.end()) return *wanted;
  return fail(ErrorCode::kNotFound, fmt::format("{}: no run {}; it holds: {}", path, *wanted, fmt::join(runs, ", ")));
}

Result<void> make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(ErrorCode::kInternal, fmt::format("{}: {}", path, error.message()));
  return {};
}

}  // namespace kvist::cli

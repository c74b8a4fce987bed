#include "kvist/report/result_folder.h"

#include <cstdint>
#include <system_error>
#include <vector>

#include "kvist/report/report.h"
#include "kvist/results/store.h"

namespace kvist::report {

namespace fs = std::filesystem;

Result<std::string> find_database(const fs::path& place) {
  if (fs::is_regular_file(place)) return place.string();
  if (fs::exists(place / "results.sqlite")) return (place / "results.sqlite").string();
  fs::path last;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(place, error)) {
    if (entry.is_directory() && fs::exists(entry.path() / "results.sqlite") && entry.path() > last) last = entry.path();
  }
  if (last.empty()) return fail(ErrorCode::kNotFound, place.string() + ": no results.sqlite in it");
  return (last / "results.sqlite").string();
}

Result<RunAnalysis> load_analysis(const fs::path& place) {
  KVIST_TRY(const std::string path, find_database(place));
  KVIST_TRY(const auto store, results::Store::open(path));
  KVIST_TRY(const std::vector<std::int64_t> runs, store->runs());
  if (runs.empty()) return fail(ErrorCode::kNotFound, path + ": holds no run");
  KVIST_TRY(const StoredRun run, open_run(*store, runs.back(), false));
  Result<RunAnalysis> analysis = analyse_run(run);
  if (!analysis) return std::unexpected(std::move(analysis).error().in(path));
  return analysis;
}

}  // namespace kvist::report

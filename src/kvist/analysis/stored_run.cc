#include "kvist/analysis/stored_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "kvist/base/yaml.h"

namespace kvist::analysis {

namespace fs = std::filesystem;

Result<StoredRun> open_run(const results::Store& store, std::int64_t run, bool with_timelines) {
  KVIST_TRY(results::RunRecord header, store.load_head(run));
  KVIST_TRY(std::vector<results::LevelHead> levels, store.levels(run));
  if (levels.empty()) return fail(ErrorCode::kNotFound, fmt::format("run {} has no finished level", run));
  KVIST_TRY(const YamlNode node, YamlNode::parse(header.spec_yaml, fmt::format("specification of run {}", run)));
  KVIST_TRY(spec::SweepSpec sweep, spec::read_sweep(node, "."));
  const auto pending = std::make_shared<std::vector<results::LevelHead>>(std::move(levels));
  const auto next = std::make_shared<std::size_t>(0);
  LevelSource source = [&store, pending, next, with_timelines]() -> Result<std::optional<results::LevelRecord>> {
    if (*next == pending->size()) return std::nullopt;
    KVIST_TRY(results::LevelRecord level, store.load_level((*pending)[(*next)++].id, {.timelines = with_timelines}));
    return level;
  };
  return StoredRun{.header = std::move(header), .sweep = std::move(sweep), .next_level = std::move(source)};
}

Result<RunAnalysis> analyse_run(const StoredRun& run) {
  std::vector<Measurement> measurements;
  const CacheContext caches = cache_context(run.sweep);
  while (true) {
    KVIST_TRY(const std::optional<results::LevelRecord> level, run.next_level());
    if (!level) break;
    measurements.push_back(measure(*level, run.sweep.method, &caches, schedule_of(run.sweep.workload)));
  }
  return RunAnalysis(run.header, run.sweep, std::move(measurements));
}

Result<std::vector<std::string>> find_databases(const fs::path& place) {
  // A folder that may not be looked into is one without results, not an exception.
  std::error_code error;
  if (fs::is_regular_file(place, error)) return std::vector{place.string()};
  if (!fs::is_directory(place, error)) {
    const bool is_missing = !error || error == std::errc::no_such_file_or_directory;
    return fail(ErrorCode::kNotFound,
                place.string() + ": " + (is_missing ? "no such file or folder" : error.message()));
  }
  if (fs::exists(place / "results.sqlite", error)) return std::vector{(place / "results.sqlite").string()};
  std::vector<std::pair<fs::file_time_type, std::string>> found;  // copies may be of one time: then by name
  fs::directory_iterator entry(place, error);
  if (error) return fail(ErrorCode::kNotFound, place.string() + ": " + error.message());
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path database = entry->path() / "results.sqlite";
    std::error_code unreadable;
    const fs::file_time_type written = fs::last_write_time(database, unreadable);
    if (!unreadable) found.emplace_back(written, database.string());
  }
  if (found.empty()) return fail(ErrorCode::kNotFound, place.string() + ": no results.sqlite in it");
  std::ranges::sort(found);
  std::vector<std::string> paths;
  for (auto& [written, path] : found) paths.push_back(std::move(path));
  return paths;
}

Result<std::string> find_database(const fs::path& place) {
  KVIST_TRY(const std::vector<std::string> paths, find_databases(place));
  return paths.back();
}

Result<RunAnalysis> load_analysis(const fs::path& place) {
  KVIST_TRY(const std::string path, find_database(place));
  KVIST_TRY(const auto store, results::Store::open_to_read(path));
  KVIST_TRY(const std::vector<std::int64_t> runs, store->runs());
  if (runs.empty()) return fail(ErrorCode::kNotFound, path + ": holds no run");
  KVIST_TRY(const StoredRun run, open_run(*store, runs.back(), false));
  Result<RunAnalysis> analysis = analyse_run(run);
  if (!analysis) return std::unexpected(std::move(analysis).error().in(path));
  return analysis;
}

}  // namespace kvist::analysis

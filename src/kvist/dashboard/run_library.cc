#include "kvist/dashboard/run_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <ranges>
#include <utility>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/analysis/stored_run.h"
#include "kvist/base/json_writer.h"
#include "kvist/dashboard/json_fields.h"
#include "kvist/dashboard/run_json.h"
#include "kvist/render/document.h"
#include "kvist/render/svg_plot.h"
#include "kvist/report/levels_csv.h"
#include "kvist/report/reference_json.h"
#include "kvist/report/run_plots.h"
#include "kvist/report/sweep_document.h"
#include "kvist/report/sweep_page.h"

namespace kvist::dashboard {

Result<void> RunLibrary::add(const std::string& place) {
  KVIST_TRY(const std::vector<std::string> paths, analysis::find_databases(place));
  if (paths.size() == 1) return add_file(paths.front());
  std::vector<std::string> problems;
  for (const std::string& path : std::views::reverse(paths)) {
    if (files_.size() >= kMostFiles) {
      problems.push_back(fmt::format("{}: holds more than the {} databases that are opened; older ones are left out",
                                     place, kMostFiles));
      break;
    }
    if (const auto added = add_file(path); !added) problems.push_back(added.error().message);
  }
  if (problems.size() == paths.size()) return fail(ErrorCode::kInvalidArgument, problems.front());
  left_out_.insert(left_out_.end(), problems.begin(), problems.end());
  return {};
}

Result<void> RunLibrary::add_file(const std::string& path) {
  if (std::ranges::find(files_, path, &File::path) != files_.end()) return {};
  if (files_.size() >= kMostFiles)
    return fail(ErrorCode::kInvalidArgument, fmt::format("more than {} databases", kMostFiles));
  KVIST_TRY(auto store, results::Store::open_to_read(path));
  const std::filesystem::path file(path);
  const std::string folder = std::filesystem::absolute(file).parent_path().filename().string();
  files_.push_back({.path = path, .name = folder + "/" + file.filename().string(), .store = std::move(store)});
  return {};
}

Result<RunLibrary::Found> RunLibrary::find(std::string_view id) {
  std::size_t file = 0;
  std::int64_t run = 0;
  const char* const end = id.data() + id.size();
  const auto first = std::from_chars(id.data(), end, file);
  const bool has_file = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
  const auto second =
      has_file ? std::from_chars(first.ptr + 1, end, run) : std::from_chars_result{end, std::errc::invalid_argument};
  if (second.ec != std::errc() || second.ptr != end || file >= files_.size()) {
    return fail(ErrorCode::kNotFound, fmt::format("run \"{}\": there is none of that id", id));
  }
  return Found{.file = &files_[file], .run = run};
}

Result<RunLibrary::Analysed> RunLibrary::analysed(std::string_view id) {
  KVIST_TRY(const Found found, find(id));
  KVIST_TRY(std::vector<results::LevelHead> levels, found.file->store->levels(found.run));
  const auto kept = std::ranges::find(kept_, id, &Analysed::id);
  if (kept != kept_.end() && kept->levels == levels) {
    Analysed again = *kept;
    kept_.erase(kept);
    kept_.push_back(again);
    return again;
  }
  if (kept != kept_.end()) kept_.erase(kept);
  KVIST_TRY(const analysis::StoredRun stored, analysis::open_run(*found.file->store, found.run, false));
  KVIST_TRY(analysis::RunAnalysis made, analysis::analyse_run(stored));
  kept_.push_back({.id = std::string(id),
                   .levels = std::move(levels),
                   .analysis = std::make_shared<const analysis::RunAnalysis>(std::move(made))});
  if (kept_.size() > kKeptRuns) kept_.pop_front();
  return kept_.back();
}

Result<std::string> RunLibrary::runs_json() {
  JsonWriter json;
  std::vector<std::string> problems = left_out_;  // and of what is damaged; the rest can be looked at
  json.begin_object().key("runs").begin_array();
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const File& file = files_[i];
    const auto runs = file.store->runs();
    if (!runs) problems.push_back(runs.error().message);
    for (const std::int64_t run : runs.value_or(std::vector<std::int64_t>{})) {
      const auto head = file.store->load_head(run);
      const auto levels = head ? file.store->levels(run) : Result<std::vector<results::LevelHead>>();
      if (!head || !levels) {
        problems.push_back(fmt::format("run {}: {}", run, head ? levels.error().message : head.error().message));
        continue;
      }
      json.begin_object();
      write_run_head(json, fmt::format("{}-{}", i, run), file.name, *head, *levels);
      json.end_object();
    }
  }
  json.end_array().key("problems").begin_array();
  for (const std::string& problem : problems) json.value(problem);
  json.end_array().end_object();
  return json.take();
}

Result<std::string> RunLibrary::run_json(std::string_view run) {
  KVIST_TRY(const Found found, find(run));
  KVIST_TRY(const results::RunRecord head, found.file->store->load_head(found.run));
  KVIST_TRY(const Analysed made, analysed(run));
  JsonWriter json;
  json.begin_object();
  write_run_head(json, std::string(run), found.file->name, head, made.levels);
  write_curves(json, *made.analysis, made.levels);
  json.end_object();
  return json.take();
}

Result<std::string> RunLibrary::level_json(std::string_view run, std::int64_t level) {
  KVIST_TRY(const Found found, find(run));
  KVIST_TRY(const std::vector<results::LevelHead> levels, found.file->store->levels(found.run));
  if (std::ranges::find(levels, level, &results::LevelHead::id) == levels.end()) {
    return fail(ErrorCode::kNotFound, fmt::format("level {}: the run has none of that number", level));
  }
  KVIST_TRY(const results::LevelRecord record,
            found.file->store->load_level(level, {.gaps = false, .timelines = true}));
  return dashboard::level_json(run, level, record);
}

Result<std::string> RunLibrary::compare_json(std::string_view baseline, std::string_view candidate) {
  KVIST_TRY(const Analysed before, analysed(baseline));
  KVIST_TRY(const Analysed after, analysed(candidate));
  return comparison_json(baseline, *before.analysis, candidate, *after.analysis);
}

Result<Download> RunLibrary::file(std::string_view run, std::string_view name) {
  KVIST_TRY(const Analysed made, analysed(run));
  const analysis::RunAnalysis& analysis = *made.analysis;
  if (name == "report.md")
    return Download{"text/markdown; charset=utf-8", render::markdown_of(report::build_document(analysis))};
  if (name == "report.json")
    return Download{"application/json", report::reference_json(analysis, report::JsonDetail::kFull)};
  if (name == "report.html") return Download{"text/html; charset=utf-8", report::sweep_page(analysis)};
  if (name == "levels.csv") return Download{"text/csv; charset=utf-8", report::levels_csv(analysis)};
  const std::vector<render::Plot> plots = report::plots_over_levels(analysis);
  constexpr std::size_t kColumns = 2;
  if (name == "plots.svg") return Download{"image/svg+xml", render::render_svg_sheet(plots, kColumns)};
  const auto plot = name.ends_with(".svg") ? plot_of(name.substr(0, name.size() - 4)) : std::nullopt;
  if (plot && *plot < plots.size()) return Download{"image/svg+xml", render::render_svg_sheet({plots[*plot]}, 1)};
  return fail(ErrorCode::kNotFound, fmt::format("{}: a run has no such file", name.substr(0, 64)));
}

}  // namespace kvist::dashboard

// kvist report merge: several runs as one, without measuring again.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "kvist/analysis/merged_runs.h"
#include "kvist/analysis/stored_run.h"
#include "kvist/base/version.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/stored.h"
#include "kvist/report/report.h"
#include "kvist/results/store.h"

namespace kvist::cli {
namespace {

struct Source {
  std::unique_ptr<results::Store> store;
  analysis::MergedPart part;
};

Result<Source> open_source(const std::string& place) {
  Source source;
  KVIST_TRY(const std::string path, chosen_database(place));
  KVIST_TRY(source.store, results::Store::open_to_read(path));
  KVIST_TRY(const std::int64_t number, chosen_run(*source.store, path, std::nullopt));
  KVIST_TRY(analysis::StoredRun run, analysis::open_run(*source.store, number));
  source.part = {.name = place, .head = std::move(run.header), .sweep = std::move(run.sweep), .levels = {}};
  KVIST_TRY(source.part.levels, source.store->levels(number));
  return source;
}

/// The merged run begins with the first part and ends with the last; of their machines it has those that agree.
results::RunRecord head_of(const std::vector<analysis::MergedPart>& parts, const analysis::MergedRun& merged) {
  results::RunRecord head = parts.front().head;
  head.kvist_version = kVersion;
  head.spec_yaml = spec::to_yaml(merged.sweep);
  head.finished_utc.clear();
  head.wall_s = 0;
  head.sources = analysis::sources_of(parts);
  for (const analysis::MergedPart& part : parts) {
    std::erase_if(head.machine, [&](const auto& entry) {
      const auto other = part.head.machine.find(entry.first);
      return other == part.head.machine.end() || other->second != entry.second;
    });
  }
  return head;
}

}  // namespace

Result<void> run_report_merge(const ReportMergeArguments& arguments) {
  std::vector<Source> sources;
  std::vector<analysis::MergedPart> parts;
  double wall_s = 0;
  for (const std::string& place : arguments.results) {
    KVIST_TRY(Source source, open_source(place));
    wall_s += source.part.head.wall_s;
    parts.push_back(source.part);
    sources.push_back(std::move(source));
  }
  KVIST_TRY(const analysis::MergedRun merged, analysis::merge_runs(parts));
  KVIST_TRY_VOID(make_folder(arguments.output));
  const std::string path = (std::filesystem::path(arguments.output) / "results.sqlite").string();
  if (std::filesystem::exists(path)) return fail(ErrorCode::kInvalidArgument, path + ": exists already");
  KVIST_TRY(const auto store, results::Store::open(path));
  KVIST_TRY(const std::int64_t run, store->begin_run(head_of(parts, merged)));
  for (const analysis::MergedLevel& level : merged.levels) {
    KVIST_TRY(results::LevelRecord record, sources[level.part].store->load_level(level.id));
    record.repetition = level.repetition;
    KVIST_TRY_VOID(store->add_level(run, record));
  }
  KVIST_TRY_VOID(store->finish_run(run, parts.back().head.finished_utc, wall_s));
  KVIST_TRY(const analysis::StoredRun stored, analysis::open_run(*store, run));
  KVIST_TRY(const report::WrittenReport written,
            report::write_report(stored.header, stored.sweep, stored.next_level, arguments.output));
  print_line(written.table);
  print_line(fmt::format("report    {}\nresults   {}", written.files.html, path));
  return {};
}

}  // namespace kvist::cli

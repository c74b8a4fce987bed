#include "kvist/report/report.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "kvist/analysis/arrival_law.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/output_file.h"
#include "kvist/report/arrival_text.h"
#include "kvist/report/levels_csv.h"
#include "kvist/report/reference_json.h"
#include "kvist/report/sweep_document.h"
#include "kvist/report/sweep_page.h"
#include "kvist/report/terminal.h"
#include "kvist/report/timeline_csv.h"

namespace kvist::report {
namespace {

/// timeline.csv, created with the first level that has timelines.
class TimelineFile {
 public:
  explicit TimelineFile(std::filesystem::path path) : path_(std::move(path)) {}

  void add(const results::LevelRecord& level) {
    std::string lines;
    append_timeline_csv(lines, level);
    if (lines.empty()) return;
    if (!file_) {
      file_.emplace(path_);
      file_->append(timeline_csv_head());
    }
    file_->append(lines);
  }

  /// The path; empty if there was nothing to write, in which case an earlier report's file is removed.
  [[nodiscard]] Result<std::string> finish() {
    if (file_) return file_->finish();
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
    return std::string();
  }

 private:
  std::filesystem::path path_;
  std::optional<OutputFile> file_;
};

/// A level's figures. Open arrivals are tested against their law, and the level's remarks say how that went.
analysis::Measurement measured(const results::LevelRecord& level, const spec::SweepSpec& sweep,
                               const analysis::CacheContext& caches) {
  analysis::Measurement measurement =
      analysis::measure(level, sweep.method, &caches, analysis::schedule_of(sweep.workload));
  const spec::ArrivalSpec& arrivals = sweep.workload.arrivals;
  if (arrivals.is_open() && sweep.workload.trace.file.empty()) {
    const double rate = arrivals.starts_per_second(level.concurrency);
    const analysis::ArrivalTest test =
        analysis::test_arrivals(level, arrivals, rate, analysis::held_back_in(level, arrivals, rate));
    measurement.record.remarks.push_back("arrivals " + arrival_text(test));
  }
  return measurement;
}

Result<ReportFiles> write_files(const analysis::RunAnalysis& analysis, const std::filesystem::path& folder,
                                TimelineFile& timeline) {
  ReportFiles files;
  KVIST_TRY(files.markdown, write_file(folder / "report.md", render::markdown_of(build_document(analysis))));
  KVIST_TRY(files.json, write_file(folder / "report.json", reference_json(analysis, JsonDetail::kFull)));
  KVIST_TRY(files.html, write_file(folder / "report.html", sweep_page(analysis)));
  KVIST_TRY(files.levels, write_file(folder / "levels.csv", levels_csv(analysis)));
  KVIST_TRY(files.timeline, timeline.finish());
  return files;
}

}  // namespace

std::string render_markdown(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return render::markdown_of(build_document(analysis::RunAnalysis(run, sweep)));
}

std::string render_json(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return reference_json(analysis::RunAnalysis(run, sweep), JsonDetail::kFull);
}

std::string render_html(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return sweep_page(analysis::RunAnalysis(run, sweep));
}

std::string render_terminal(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return terminal_table(analysis::RunAnalysis(run, sweep));
}

Result<ReportFiles> write_report(const results::RunRecord& run, const spec::SweepSpec& sweep,
                                 const std::string& directory) {
  const std::filesystem::path folder(directory);
  TimelineFile timeline(folder / "timeline.csv");
  for (const results::LevelRecord& level : run.levels) timeline.add(level);
  return write_files(analysis::RunAnalysis(run, sweep), folder, timeline);
}

Result<WrittenReport> write_report(const results::RunRecord& header, const spec::SweepSpec& sweep,
                                   const analysis::LevelSource& next_level, const std::string& directory) {
  const std::filesystem::path folder(directory);
  TimelineFile timeline(folder / "timeline.csv");
  std::vector<analysis::Measurement> measurements;
  const analysis::CacheContext caches = analysis::cache_context(sweep);
  while (true) {
    KVIST_TRY(const std::optional<results::LevelRecord> level, next_level());
    if (!level) break;
    timeline.add(*level);
    measurements.push_back(measured(*level, sweep, caches));
  }
  const analysis::RunAnalysis analysis(header, sweep, std::move(measurements));
  WrittenReport written;
  KVIST_TRY(written.files, write_files(analysis, folder, timeline));
  written.table = terminal_table(analysis);
  return written;
}

}  // namespace kvist::report

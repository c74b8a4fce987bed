// A run as files people read: Markdown, JSON, HTML.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "kvist/analysis/stored_run.h"
#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::report {

/// Markdown in the layout of the published documents: the two-mode one for two modes, the single-mode one otherwise.
[[nodiscard]] std::string render_markdown(const results::RunRecord& run, const spec::SweepSpec& sweep);
/// JSON in the published reference format, with kvist's own keys beside the published ones.
[[nodiscard]] std::string render_json(const results::RunRecord& run, const spec::SweepSpec& sweep);
/// One self-contained page with plots.
[[nodiscard]] std::string render_html(const results::RunRecord& run, const spec::SweepSpec& sweep);
/// The main table for a terminal.
[[nodiscard]] std::string render_terminal(const results::RunRecord& run, const spec::SweepSpec& sweep);

/// Paths of the files written by write_report.
struct ReportFiles {
  std::string markdown;
  std::string json;
  std::string html;
  std::string levels;    ///< CSV
  std::string timeline;  ///< empty where no level has timelines
};
/// Writes report.md, report.json, report.html, levels.csv and, where timelines were recorded, timeline.csv into an
/// existing directory.
[[nodiscard]] Result<ReportFiles> write_report(const results::RunRecord& run, const spec::SweepSpec& sweep,
                                               const std::string& directory);

/// The written files, and the main table for a terminal.
struct WrittenReport {
  ReportFiles files;
  std::string table;
};
/// As above, with one level in memory at a time. `header` comes without levels.
[[nodiscard]] Result<WrittenReport> write_report(const results::RunRecord& header, const spec::SweepSpec& sweep,
                                                 const analysis::LevelSource& next_level, const std::string& directory);

}  // namespace kvist::report

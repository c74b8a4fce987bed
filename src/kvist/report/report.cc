#include "kvist/report/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "kvist/report/html_page.h"
#include "kvist/report/reference_json.h"
#include "kvist/report/run_analysis.h"
#include "kvist/report/sweep_document.h"
#include "kvist/report/terminal.h"

namespace kvist::report {
namespace {

/// Written beside its place and moved there: a reader never sees half a report.
Result<std::string> write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path partial = path;
  partial += ".partial";
  errno = 0;
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << text;
    file.flush();
    if (!file) {
      const std::string reason = std::generic_category().message(errno == 0 ? EIO : errno);
      return fail(ErrorCode::kInternal, fmt::format("{}: cannot be written: {}", path.string(), reason));
    }
  }
  std::error_code error;
  std::filesystem::rename(partial, path, error);
  if (error) {
    return fail(ErrorCode::kInternal, fmt::format("{}: cannot be written: {}", path.string(), error.message()));
  }
  return path.string();
}

}  // namespace

std::string render_markdown(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return markdown_of(build_document(RunAnalysis(run, sweep)));
}

std::string render_json(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return reference_json(RunAnalysis(run, sweep), JsonDetail::kFull);
}

std::string render_html(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return html_page(RunAnalysis(run, sweep));
}

std::string render_terminal(const results::RunRecord& run, const spec::SweepSpec& sweep) {
  return terminal_table(RunAnalysis(run, sweep));
}

Result<ReportFiles> write_report(const results::RunRecord& run, const spec::SweepSpec& sweep,
                                 const std::string& directory) {
  const std::filesystem::path folder(directory);
  const RunAnalysis analysis(run, sweep);
  ReportFiles files;
  KVIST_TRY(files.markdown, write_file(folder / "report.md", markdown_of(build_document(analysis))));
  KVIST_TRY(files.json, write_file(folder / "report.json", reference_json(analysis, JsonDetail::kFull)));
  KVIST_TRY(files.html, write_file(folder / "report.html", html_page(analysis)));
  return files;
}

}  // namespace kvist::report

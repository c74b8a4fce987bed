// kvist report: the report again, from stored results.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "kvist/base/yaml.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/report/report.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"

namespace kvist::cli {
namespace {

Result<std::int64_t> chosen_run(const results::Store& store, const ReportArguments& arguments) {
  KVIST_TRY(const std::vector<std::int64_t> runs, store.runs());
  if (runs.empty()) return fail(ErrorCode::kNotFound, arguments.database + ": holds no run");
  if (!arguments.run) return runs.back();
  if (std::ranges::find(runs, *arguments.run) != runs.end()) return *arguments.run;
  return fail(ErrorCode::kNotFound,
              fmt::format("{}: no run {}; it holds: {}", arguments.database, *arguments.run, fmt::join(runs, ", ")));
}

}  // namespace

Result<void> run_report(const ReportArguments& arguments) {
  // Opening a store makes it where it does not exist: a mistyped path must not.
  if (!std::filesystem::is_regular_file(arguments.database)) {
    return fail(ErrorCode::kNotFound, arguments.database + ": no such file");
  }
  KVIST_TRY(const auto store, results::Store::open(arguments.database));
  KVIST_TRY(const std::int64_t number, chosen_run(*store, arguments));
  KVIST_TRY(const results::RunRecord run, store->load_run(number));
  if (run.levels.empty()) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: run {} has no measured level", arguments.database, number));
  }
  KVIST_TRY(const YamlNode node,
            YamlNode::parse(run.spec_yaml, fmt::format("{} (specification of run {})", arguments.database, number)));
  KVIST_TRY(const spec::SweepSpec sweep, spec::read_sweep(node, "."));

  std::filesystem::path folder = arguments.output;
  if (folder.empty()) folder = std::filesystem::absolute(arguments.database).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorCode::kInternal, fmt::format("{}: {}", folder.string(), error.message()));
  KVIST_TRY(const report::ReportFiles files, report::write_report(run, sweep, folder.string()));
  print_line(report::render_terminal(run, sweep));
  print_line(fmt::format("report    {}\n          {}\n          {}", files.html, files.markdown, files.json));
  return {};
}

}  // namespace kvist::cli

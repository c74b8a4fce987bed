// kvist report: the report again, from stored results; a run compared with published figures.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "kvist/analysis/reference_check.h"
#include "kvist/analysis/regression.h"
#include "kvist/analysis/stored_run.h"
#include "kvist/base/output_file.h"
#include "kvist/base/yaml.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/stored.h"
#include "kvist/report/check_text.h"
#include "kvist/report/comparison_text.h"
#include "kvist/report/regression_text.h"
#include "kvist/report/report.h"

namespace kvist::cli {
namespace {

Result<analysis::CheckRules> load_rules(const std::string& file, const std::string& reference) {
  if (file.empty()) return analysis::CheckRules{};
  KVIST_TRY(const YamlNode root, YamlNode::load(file));
  return analysis::read_check_rules(root, reference);
}

/// The levels of a sweep's results, or the load of a summary.json.
Result<std::vector<analysis::JudgedLevel>> levels_at(const std::filesystem::path& place) {
  std::filesystem::path summary = place;
  if (std::filesystem::is_directory(place)) summary /= "summary.json";
  if (summary.extension() == ".json" && std::filesystem::is_regular_file(summary)) {
    std::ifstream file(summary, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    if (!file) return fail(ErrorCode::kNotFound, summary.string() + ": cannot be read");
    return analysis::judged_levels_of_summary(text.str(), summary.string());
  }
  KVIST_TRY(const analysis::RunAnalysis analysis, analysis::load_analysis(place));
  return analysis::judged_levels(analysis);
}

}  // namespace

Result<void> run_report_regression(const ReportRegressionArguments& arguments) {
  const analysis::RegressionTolerance tolerance{.figures_pct = arguments.tolerance_pct,
                                                .error_points = arguments.error_tolerance_points};
  if (!(tolerance.figures_pct >= 0 && tolerance.figures_pct <= 1'000)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--tolerance: {}; want 0 to 1000 percent", tolerance.figures_pct));
  }
  if (!(tolerance.error_points >= 0 && tolerance.error_points <= 100)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--error-tolerance: {}; want 0 to 100 points", tolerance.error_points));
  }
  KVIST_TRY(const std::vector<analysis::JudgedLevel> before, levels_at(arguments.before));
  KVIST_TRY(const std::vector<analysis::JudgedLevel> after, levels_at(arguments.after));
  KVIST_TRY_VOID(analysis::check_comparable(before, arguments.before, after, arguments.after));
  const std::vector<analysis::FigureRegression> results = analysis::compare_runs(before, after, tolerance);
  print_line(report::regression_text(results, tolerance));
  const auto failed = std::ranges::count_if(results, [](const analysis::FigureRegression& result) {
    return result.verdict == analysis::RegressionVerdict::kWorse ||
           result.verdict == analysis::RegressionVerdict::kUnknown;
  });
  if (failed == 0) return {};
  return fail(ErrorCode::kInternal,
              fmt::format("{} of {} figures are worse or not known any more", failed, results.size()));
}

Result<void> run_report(const ReportArguments& arguments) {
  KVIST_TRY(const auto store, open_existing(arguments.database));
  KVIST_TRY(const std::int64_t number, chosen_run(*store, arguments.database, arguments.run));
  KVIST_TRY(const analysis::StoredRun run, analysis::open_run(*store, number));
  std::filesystem::path folder = arguments.output;
  if (folder.empty()) folder = std::filesystem::absolute(arguments.database).parent_path();
  KVIST_TRY_VOID(make_folder(folder.string()));
  KVIST_TRY(const report::WrittenReport written,
            report::write_report(run.header, run.sweep, run.next_level, folder.string()));
  print_line(written.table);
  print_line(fmt::format("report    {}\n          {}\n          {}", written.files.html, written.files.markdown,
                         written.files.json));
  return {};
}

Result<void> run_report_check(const ReportCheckArguments& arguments) {
  KVIST_TRY(const auto store, open_existing(arguments.database));
  KVIST_TRY(const std::int64_t number, chosen_run(*store, arguments.database, arguments.run));
  KVIST_TRY(analysis::Reference reference, analysis::load_reference(arguments.reference));
  KVIST_TRY(analysis::CheckRules rules, load_rules(arguments.bars, reference.name));
  KVIST_TRY(const analysis::StoredRun run, analysis::open_run(*store, number, false));
  KVIST_TRY(const analysis::RunAnalysis analysis, analysis::analyse_run(run));
  const analysis::ReferenceCheck check = analysis::check_against(analysis, std::move(reference), std::move(rules));
  if (!arguments.json.empty()) {
    KVIST_TRY_VOID(write_file(arguments.json, report::reference_check_json(analysis, check)));
  }
  if (!arguments.markdown.empty()) {
    KVIST_TRY_VOID(write_file(arguments.markdown, report::reference_check_markdown(analysis, check)));
  }
  print_line(report::reference_check_terminal(check));
  const std::size_t missed = check.count(analysis::Verdict::kMissed);
  const std::size_t incomplete = check.count(analysis::Verdict::kIncomplete);
  if (missed + incomplete == 0) return {};
  return fail(ErrorCode::kInternal, fmt::format("{} of {} figures miss their bar, {} were not measured whole", missed,
                                                check.figures.size(), incomplete));
}

Result<void> run_report_compare(const ReportCompareArguments& arguments) {
  std::optional<spec::RoutingMode> baseline;
  if (!arguments.baseline.empty()) {
    KVIST_TRY(baseline, spec::parse_routing_mode(arguments.baseline));
  }
  std::vector<spec::RoutingMode> wanted;
  for (const std::string& name : arguments.modes) {
    KVIST_TRY(const spec::RoutingMode mode, spec::parse_routing_mode(name));
    wanted.push_back(mode);
  }
  std::vector<analysis::RunComparison> runs;
  for (const std::string& place : arguments.results) {
    KVIST_TRY(const analysis::RunAnalysis analysis, analysis::load_analysis(place));
    KVIST_TRY(analysis::RunComparison run, analysis::compare_modes(analysis, baseline));
    if (!wanted.empty()) run = analysis::only(std::move(run), wanted);
    if (run.modes.empty()) return fail(ErrorCode::kInvalidArgument, place + ": holds no mode to compare");
    runs.push_back(std::move(run));
  }
  print_line(report::comparisons_text(runs));
  if (arguments.json.empty()) return {};
  KVIST_TRY_VOID(write_file(arguments.json, report::comparisons_json(runs)));
  return {};
}

}  // namespace kvist::cli

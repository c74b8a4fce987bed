// kvist report: the report again, from stored results; a run compared with published figures.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include "kvist/analysis/reference_check.h"
#include "kvist/analysis/regression.h"
#include "kvist/analysis/stored_run.h"
#include "kvist/base/input_file.h"
#include "kvist/base/output_file.h"
#include "kvist/base/yaml.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/report_runs.h"
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

/// An arm as a user names it: a routing mode by any of its names, or another arm by its own.
Result<spec::Arm> named_arm(const std::string& name) {
  if (const auto mode = spec::parse_routing_mode(name)) return spec::Arm(*mode);
  return spec::parse_arm(name);
}

/// One measurement, or all repetitions of a level.
struct LeftOut {
  spec::Arm arm = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::optional<std::uint32_t> repetition;  // from 0

  [[nodiscard]] bool covers(const results::LevelRecord& level) const {
    return level.mode == arm && level.concurrency == concurrency && (!repetition || level.repetition == *repetition);
  }
};

Result<std::uint32_t> number_in(const std::string& text, const std::string& part, std::uint32_t low) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error == std::errc() && end == part.data() + part.size() && number >= low) return number;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("--exclude {}: want ARM:LEVEL or ARM:LEVEL:REPETITION, the repetition from 1", text));
}

/// "kv:24", "kv:24:2".
Result<LeftOut> parse_left_out(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  LeftOut out;
  KVIST_TRY(out.arm, named_arm(text.substr(0, first)));
  const std::string level = first == std::string::npos ? "" : text.substr(first + 1, second - first - 1);
  KVIST_TRY(out.concurrency, number_in(text, level, 1));
  if (second == std::string::npos) return out;
  KVIST_TRY(const std::uint32_t repetition, number_in(text, text.substr(second + 1), 1));
  out.repetition = repetition - 1;
  return out;
}

/// The run without what is left out. Errors: something to leave out that it does not have.
Result<analysis::StoredRun> without(analysis::StoredRun run, const results::Store& store, std::int64_t number,
                                    const std::vector<std::string>& exclude) {
  std::vector<LeftOut> all;
  KVIST_TRY(const std::vector<results::LevelHead> heads, store.levels(number));
  for (const std::string& text : exclude) {
    KVIST_TRY(const LeftOut out, parse_left_out(text));
    const bool there = std::ranges::any_of(heads, [&](const results::LevelHead& head) {
      results::LevelRecord level;
      level.mode = head.mode;
      level.concurrency = head.concurrency;
      level.repetition = head.repetition;
      return out.covers(level);
    });
    if (!there) return fail(ErrorCode::kNotFound, fmt::format("--exclude {}: the run has no such measurement", text));
    all.push_back(out);
    run.header.left_out.push_back(text);
  }
  if (all.empty()) return run;
  run.next_level = [next = std::move(run.next_level), all]() -> Result<std::optional<results::LevelRecord>> {
    while (true) {
      KVIST_TRY(std::optional<results::LevelRecord> level, next());
      if (!level) return std::nullopt;
      if (std::ranges::none_of(all, [&](const LeftOut& out) { return out.covers(*level); })) return level;
    }
  };
  return run;
}

/// The levels of a sweep's results, or the load of a summary.json.
Result<std::vector<analysis::JudgedLevel>> levels_at(const std::filesystem::path& place) {
  std::filesystem::path summary = place;
  if (std::filesystem::is_directory(place)) summary /= "summary.json";
  if (summary.extension() == ".json" && std::filesystem::is_regular_file(summary)) {
    KVIST_TRY(const std::string text, read_file(summary, analysis::kMostReferenceBytes));
    return analysis::judged_levels_of_summary(text, summary.string());
  }
  KVIST_TRY(const analysis::RunAnalysis analysis, analysis_of(place));
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
  // Looked up once: a sweep that runs may write into another folder meanwhile.
  KVIST_TRY(const std::string database, chosen_database(arguments.database));
  KVIST_TRY(const auto store, results::Store::open_to_read(database));
  KVIST_TRY(const std::int64_t number, chosen_run(*store, arguments.database, arguments.run));
  KVIST_TRY(analysis::StoredRun whole, analysis::open_run(*store, number));
  KVIST_TRY(const analysis::StoredRun run, without(std::move(whole), *store, number, arguments.exclude));
  std::filesystem::path folder = arguments.output;
  if (folder.empty()) folder = std::filesystem::absolute(database).parent_path();
  KVIST_TRY_VOID(make_folder(folder.string()));
  const auto written = report::write_report(run.header, run.sweep, run.next_level, folder.string());
  if (!written) {
    if (!arguments.output.empty()) return std::unexpected(written.error());
    return fail(written.error().code, written.error().message + "; --output names another folder");
  }
  print_line(written->table);
  print_line(fmt::format("report    {}\n          {}\n          {}\n          {}", written->files.html,
                         written->files.markdown, written->files.json, written->files.levels));
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
  if (arguments.runs || !arguments.markdown.empty() || !arguments.html.empty()) return compare_runs_of(arguments);
  std::optional<spec::Arm> baseline;
  if (!arguments.baseline.empty()) {
    KVIST_TRY(baseline, named_arm(arguments.baseline));
  }
  std::vector<spec::Arm> wanted;
  for (const std::string& name : arguments.modes) {
    KVIST_TRY(spec::Arm arm, named_arm(name));
    wanted.push_back(std::move(arm));
  }
  std::vector<analysis::RunComparison> runs;
  for (const std::string& place : arguments.results) {
    KVIST_TRY(const analysis::RunAnalysis analysis, analysis_of(place));
    KVIST_TRY(analysis::RunComparison run, analysis::compare_modes(analysis, baseline));
    if (!wanted.empty()) run = analysis::only(std::move(run), wanted);
    if (run.modes.empty()) return fail(ErrorCode::kInvalidArgument, place + ": holds no mode to compare");
    runs.push_back(std::move(run));
  }
  print_line(report::comparisons_text(runs));
  if (!arguments.json.empty()) KVIST_TRY_VOID(write_file(arguments.json, report::comparisons_json(runs)));
  std::size_t refused = 0;
  for (const analysis::RunComparison& run : runs) {
    for (const analysis::LevelComparison& level : run.levels) refused += level.refused.empty() ? 0 : 1;
  }
  if (refused == 0) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("{} levels must not be compared: see above", refused));
}

}  // namespace kvist::cli

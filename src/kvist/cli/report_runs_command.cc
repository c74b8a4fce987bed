// kvist report compare --runs: results beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "kvist/analysis/run_changes.h"
#include "kvist/base/output_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/report_runs.h"
#include "kvist/cli/stored.h"
#include "kvist/report/run_comparison.h"

namespace kvist::cli {
namespace {

/// More runs cannot be told apart in a plot.
constexpr std::size_t kMostRuns = 8;

struct Place {
  std::string name;  // empty: as the run is called
  std::string path;
};

/// "NAME=PLACE", or a place that exists as it is.
Place place_of(const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0 || std::filesystem::exists(text)) return {.name = {}, .path = text};
  return {.name = text.substr(0, sign), .path = text.substr(sign + 1)};
}

/// The run's own name, with a number if another has it already.
std::string free_name(const std::vector<analysis::NamedRun>& runs, const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; std::ranges::find(runs, name, &analysis::NamedRun::name) != runs.end(); ++number) {
    name = fmt::format("{} ({})", wanted, number);
  }
  return name;
}

}  // namespace

Result<void> compare_runs_of(const ReportCompareArguments& arguments) {
  if (!arguments.baseline.empty() || !arguments.modes.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--runs compares every arm with the same arm of the first results: leave "
                "--baseline and --mode out");
  }
  if (arguments.results.size() < 2 || arguments.results.size() > kMostRuns) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--runs: {} results; want 2 to {}, the first of which the others "
                            "are compared with",
                            arguments.results.size(), kMostRuns));
  }
  std::deque<analysis::RunAnalysis> analyses;  // pairs refer to them
  std::vector<analysis::NamedRun> runs;
  for (const std::string& text : arguments.results) {
    const Place place = place_of(text);
    KVIST_TRY(analysis::RunAnalysis analysis, analysis_of(place.path));
    analyses.push_back(std::move(analysis));
    const std::string& own = place.name.empty() ? analyses.back().run().name : place.name;
    runs.push_back({.name = free_name(runs, own), .analysis = &analyses.back()});
  }
  std::vector<analysis::RunPair> pairs;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    KVIST_TRY(analysis::RunPair pair, analysis::pair_runs(runs.front(), runs[i]));
    pairs.push_back(std::move(pair));
  }
  print_line(report::run_comparison_text(pairs));
  if (!arguments.json.empty()) KVIST_TRY_VOID(write_file(arguments.json, report::run_comparison_json(pairs)));
  if (!arguments.markdown.empty()) {
    KVIST_TRY_VOID(write_file(arguments.markdown, report::run_comparison_markdown(pairs)));
  }
  if (!arguments.html.empty()) KVIST_TRY_VOID(write_file(arguments.html, report::run_comparison_page(pairs)));
  return {};
}

}  // namespace kvist::cli

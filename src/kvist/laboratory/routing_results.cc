#include "kvist/laboratory/routing_results.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "kvist/analysis/stored_run.h"
#include "kvist/base/output_file.h"
#include "kvist/base/yaml.h"

namespace kvist::laboratory {

namespace fs = std::filesystem;

Result<void> RoutingResults::add(RoutingScenario scenario, analysis::RunAnalysis run) {
  KVIST_TRY(analysis::RunComparison comparison, analysis::compare_modes(run, baseline_));
  auto added = std::make_unique<RoutingRun>(RoutingRun{
      .scenario = std::move(scenario), .run = std::move(run), .comparison = std::move(comparison), .outcomes = {}});
  KVIST_TRY(added->outcomes, hold_bars(added->scenario, candidate_, added->run, added->comparison));
  runs_.push_back(std::move(added));
  return {};
}

Result<RoutingResultsOutcome> write_routing_results(const RoutingResultsOptions& options) {
  KVIST_TRY(const YamlNode root, YamlNode::load(options.manifest));
  KVIST_TRY(RoutingScenarios scenarios, read_routing_scenarios(root));
  RoutingResults results(scenarios.candidate, scenarios.baseline);
  for (RoutingScenario& scenario : scenarios.scenarios) {
    KVIST_TRY(analysis::RunAnalysis run, analysis::load_analysis(fs::path(options.results) / scenario.name));
    KVIST_TRY_VOID(results.add(std::move(scenario), std::move(run)));
  }
  std::error_code error;
  fs::create_directories(options.images, error);
  if (error) return fail(ErrorCode::kInternal, fmt::format("{}: {}", options.images, error.message()));
  for (const auto& run : results.runs()) {
    if (!run->scenario.plot) continue;
    KVIST_TRY_VOID(write_file(fs::path(options.images) / (run->scenario.name + ".svg"), routing_plots(*run)));
  }
  const fs::path folder = fs::absolute(options.document).parent_path();
  const std::string images = fs::absolute(options.images).lexically_relative(folder).generic_string();
  KVIST_TRY_VOID(write_file(options.document, results.markdown(images)));
  return RoutingResultsOutcome{.table = render::render_text_table(results.overview()),
                               .met = results.count(true),
                               .missed = results.count(false),
                               .open = results.count(std::nullopt)};
}

}  // namespace kvist::laboratory

// kvist sweep: measures, then prints the path of the report.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvist/cli/calibration_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/deployer_factory.h"
#include "kvist/cli/outcome.h"
#include "kvist/cli/print.h"
#include "kvist/cli/sweep_dashboard.h"
#include "kvist/cli/termination.h"
#include "kvist/deploy/dynamo_graph.h"
#include "kvist/loadgen/agents/remote_load.h"
#include "kvist/spec/files.h"
#include "kvist/sweep/run_progress.h"
#include "kvist/sweep/sweep_runner.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {
namespace {

/// What would be applied to the cluster, one document for each arm, in the order of the sweep.
Result<void> print_manifests(const spec::SweepSpec& sweep) {
  const auto& dynamo = sweep.target.dynamo;
  if (!sweep.target.is_given() && sweep.deployment.kubernetes) {
    KVIST_TRY(const std::string manifests, manifests_of(sweep.deployment));
    print_line(manifests);
    return {};
  }
  if (!dynamo)
    return fail(ErrorCode::kInvalidArgument,
                "--dry-run: the sweep applies no manifests: it has neither deployment.kubernetes nor target.dynamo");
  const std::string name_space = dynamo->name_space.empty() ? "default" : dynamo->name_space;
  bool first = true;
  for (const spec::ArmSpec& arm : spec::arms_of(sweep)) {
    if (!arm.mode) continue;
    KVIST_TRY(const std::string manifest, deploy::dynamo_manifest(*dynamo, sweep.deployment, name_space, *arm.mode, 2));
    if (!std::exchange(first, false)) print_line("---");
    print_line("# arm " + arm.arm.name());
    print_line(manifest);
  }
  return {};
}

/// --agents in place of the file's.
Result<void> set_agents(const SweepArguments& arguments, spec::SweepSpec& sweep) {
  if (arguments.agents.empty()) return {};
  Result<std::vector<std::string>> urls = loadgen::parse_agents(arguments.agents);
  if (!urls) return std::unexpected(std::move(urls).error().in("--agents"));
  sweep.agents = {.urls = *std::move(urls), .key_file = arguments.agents_key_file, .ca = arguments.agents_ca};
  if (const auto unfit = spec::unfit_for_agents(sweep)) {
    return fail(ErrorCode::kInvalidArgument, "--agents: " + *unfit);
  }
  return {};
}

}  // namespace

Result<void> run_sweep(const SweepArguments& arguments) {
  KVIST_TRY(spec::SweepSpec spec,
            arguments.resume.empty() ? spec::load_sweep(arguments.file) : sweep::interrupted_sweep(arguments.resume));
  if (arguments.dry_run) return print_manifests(spec);
  KVIST_TRY_VOID(set_agents(arguments, spec));
  if (!arguments.output.empty()) spec.output_directory = arguments.output;
  // The progress lines have the same information as the load generator's log.
  telemetry::start_logging(telemetry::LogLevel::kWarning, "sweep");
  const Termination termination;
  sweep::SweepOptions options;
  KVIST_TRY(options.make_deployer, deployer_factory(spec));
  options.resume = arguments.resume;
  options.progress = print_line;
  options.stop = termination.token();
  if (spec.agents.are_given()) {
    print_line("levels are not held against a calibration: agents drive them");
  } else if (auto calibration = find_calibration("")) {
    options.calibration = *std::move(calibration);
  } else {
    print_line("levels are not held against a calibration: " + calibration.error().message);
  }
  std::unique_ptr<SweepDashboard> board;
  if (!arguments.dashboard.off) {
    KVIST_TRY(board, SweepDashboard::start(arguments, spec));
    options.observer = board.get();
    print_line("dashboard " + board->url());
  }
  KVIST_TRY(const sweep::SweepOutcome outcome, sweep::SweepRunner(std::move(spec), std::move(options)).run());
  if (board) board->finish(outcome);
  print_outcome(outcome);
  return result_of(outcome);
}

}  // namespace kvist::cli

// kvist sweep: measures, then says where the report is.
#include <fmt/format.h>

#include <memory>

#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/cli/termination.h"
#include "kvist/deploy/local_deployer.h"
#include "kvist/spec/files.h"
#include "kvist/sweep/sweep_runner.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {
namespace {

void print_outcome(const sweep::SweepOutcome& outcome) {
  if (!outcome.files) return;
  print_line("");
  print_line(outcome.table);
  print_line(fmt::format("report    {}", outcome.files->html));
  print_line(fmt::format("          {}", outcome.files->markdown));
  print_line(fmt::format("          {}", outcome.files->json));
  print_line(fmt::format("results   {}/results.sqlite", outcome.directory));
}

}  // namespace

Result<void> run_sweep(const std::string& file, const std::string& output) {
  KVIST_TRY(spec::SweepSpec spec, spec::load_sweep(file));
  if (!output.empty()) spec.output_directory = output;
  // The progress lines say what the load generator's own would, once.
  telemetry::start_logging(telemetry::LogLevel::kWarning, "sweep");
  const Termination termination;
  sweep::SweepOptions options;
  options.make_deployer = [](const std::string& run_directory) {
    return std::make_unique<deploy::LocalDeployer>(deploy::LocalDeployerOptions{.run_directory = run_directory});
  };
  options.progress = print_line;
  options.stop = termination.token();
  KVIST_TRY(const sweep::SweepOutcome outcome, sweep::SweepRunner(std::move(spec), std::move(options)).run());
  print_outcome(outcome);
  if (!outcome.failure) return {};
  Error error = *outcome.failure;
  return std::unexpected(
      std::move(error).in(fmt::format("{} of {} levels were measured", outcome.levels_done, outcome.levels_planned)));
}

}  // namespace kvist::cli

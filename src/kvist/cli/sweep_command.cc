// kvist sweep: measures, then prints the path of the report.
#include <memory>

#include "kvist/cli/calibration_file.h"
#include "kvist/cli/commands.h"
#include "kvist/cli/outcome.h"
#include "kvist/cli/print.h"
#include "kvist/cli/termination.h"
#include "kvist/deploy/local_deployer.h"
#include "kvist/spec/files.h"
#include "kvist/sweep/sweep_runner.h"
#include "kvist/telemetry/log.h"

namespace kvist::cli {
Result<void> run_sweep(const std::string& file, const std::string& output) {
  KVIST_TRY(spec::SweepSpec spec, spec::load_sweep(file));
  if (!output.empty()) spec.output_directory = output;
  // The progress lines have the same information as the load generator's log.
  telemetry::start_logging(telemetry::LogLevel::kWarning, "sweep");
  const Termination termination;
  sweep::SweepOptions options;
  options.make_deployer = [](const std::string& run_directory) {
    return std::make_unique<deploy::LocalDeployer>(deploy::LocalDeployerOptions{.run_directory = run_directory});
  };
  options.progress = print_line;
  options.stop = termination.token();
  if (auto calibration = find_calibration("")) {
    options.calibration = *std::move(calibration);
  } else {
    print_line("levels are not held against a calibration: " + calibration.error().message);
  }
  KVIST_TRY(const sweep::SweepOutcome outcome, sweep::SweepRunner(std::move(spec), std::move(options)).run());
  print_outcome(outcome);
  return result_of(outcome);
}

}  // namespace kvist::cli

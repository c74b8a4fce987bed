// A whole sweep, live: deployments, levels, results, report.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/loadgen/calibration.h"
#include "kvist/results/records.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/level_runner.h"
#include "kvist/sweep/plan.h"
#include "kvist/sweep/resolve.h"
#include "kvist/sweep/sweep_outcome.h"

namespace kvist::sweep {

/// Makes the deployer of one mode, whose files go into `run_directory`.
using DeployerFactory = std::function<std::unique_ptr<deploy::Deployer>(const std::string& run_directory)>;

struct SweepOptions {
  DeployerFactory make_deployer;
  Progress progress;
  std::stop_token stop;  ///< ends the sweep cleanly; finished levels are kept and reported
  std::optional<loadgen::Calibration> calibration = {};  ///< levels beyond it get a remark
};

/// Runs the plan once. Each mode has a new deployment, and each level is stored as soon as it is measured. Blocks.
/// Deployments are killed when the thread that calls run() ends.
class SweepRunner {
 public:
  SweepRunner(spec::SweepSpec sweep, SweepOptions options);

  /// Errors: only if nothing could be started (a profile that does not exist, a memory plan that does not fit, a folder
  /// that cannot be created); later failures are in the outcome's `failure`.
  [[nodiscard]] Result<SweepOutcome> run();

 private:
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> run_mode(const PlannedMode& mode);
  [[nodiscard]] Result<void> run_levels(const PlannedMode& mode, deploy::Deployer& deployer);
  [[nodiscard]] Result<void> keep(results::LevelRecord& record);
  /// A remark, if the level is beyond what the client was calibrated for.
  void hold_against_calibration(results::LevelRecord& record) const;
  [[nodiscard]] Result<void> report();

  const spec::SweepSpec sweep_;  // as written by the user, which is stored and reported
  ResolvedSweep resolved_;       // with the settings of the profiles, which is started
  const SweepOptions options_;
  const std::vector<PlannedMode> plan_;
  std::unique_ptr<results::Store> store_;
  std::int64_t run_ = 0;
  TimePoint begun_;
  SweepOutcome outcome_;
};

}  // namespace kvist::sweep

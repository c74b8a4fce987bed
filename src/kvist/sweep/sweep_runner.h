// A whole sweep, live: deployments, levels, results, report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>

#include "kvist/base/error.h"
#include "kvist/loadgen/calibration.h"
#include "kvist/results/records.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/level_runner.h"
#include "kvist/sweep/live_levels.h"
#include "kvist/sweep/plan.h"
#include "kvist/sweep/run_progress.h"
#include "kvist/sweep/sweep_observer.h"
#include "kvist/sweep/sweep_outcome.h"

namespace kvist::sweep {

struct SweepOptions {
  DeployerFactory make_deployer;
  Progress progress;
  std::stop_token stop;  ///< ends the sweep cleanly; finished levels are kept and reported
  std::optional<loadgen::Calibration> calibration = {};  ///< levels beyond it get a remark
  std::string resume = {};            ///< folder of an interrupted sweep to be continued; empty: a new sweep
  SweepObserver* observer = nullptr;  ///< outlives the sweep; null: nobody watches
};

/// Runs the plan once. If it continues an interrupted sweep, levels that are finished are not measured again. Arms have
/// deployments as spec::CacheProof says, and each level is stored as soon as it is measured. Blocks. Deployments are
/// killed when the thread that calls run() ends.
class SweepRunner {
 public:
  SweepRunner(spec::SweepSpec sweep, SweepOptions options);

  /// Errors: only if nothing could be started (a profile that does not exist, a memory plan that does not fit, a folder
  /// that cannot be created); later failures are in the outcome's `failure`.
  [[nodiscard]] Result<SweepOutcome> run();

 private:
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> run_all();
  /// The levels of an arm that are still to be measured; the first is at `position` of the plan.
  [[nodiscard]] Result<void> run_stretch(const PlannedMode& stretch, std::size_t position);
  [[nodiscard]] Result<void> run_load(std::span<const PlannedLevel> levels, std::size_t position);
  [[nodiscard]] Result<void> keep(results::LevelRecord& record, std::size_t position);
  /// Adds a remark if the level is beyond what the client was calibrated for.
  void hold_against_calibration(results::LevelRecord& record) const;
  [[nodiscard]] Result<void> report();

  const spec::SweepSpec sweep_;  // as written by the user, which is stored and reported
  const SweepOptions options_;
  const std::vector<PlannedMode> plan_;
  RunProgress run_progress_;
  LiveLevels live_;
  FolderLock lock_;
  std::unique_ptr<results::Store> store_;
  std::int64_t run_ = 0;
  TimePoint begun_;
  double wall_s_before_ = 0;  // of an interrupted sweep
  SweepOutcome outcome_;
};

}  // namespace kvist::sweep

// A whole sweep, live: deployments, levels, results, report.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/report/report.h"
#include "kvist/results/records.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/level_runner.h"
#include "kvist/sweep/plan.h"

namespace kvist::sweep {

/// Makes the deployer of one mode, whose files go into `run_directory`.
using DeployerFactory = std::function<std::unique_ptr<deploy::Deployer>(const std::string& run_directory)>;

struct SweepOptions {
  DeployerFactory make_deployer;
  Progress progress;
  std::stop_token stop;  ///< ends the sweep cleanly; finished levels are kept and reported
};

/// What a sweep left behind.
struct SweepOutcome {
  std::string directory;  ///< results.sqlite, report.md, report.json, report.html, logs/
  std::size_t levels_done = 0;
  std::size_t levels_planned = 0;
  std::optional<report::ReportFiles> files;  ///< nothing where no level was finished
  std::string table;                         ///< for a terminal
  std::optional<Error> failure;              ///< why the sweep ended early
};

/// Runs the plan once. Each mode has a fresh deployment; each level goes into the database as soon as it is measured.
/// Blocks; deployments die with the thread that calls run().
class SweepRunner {
 public:
  SweepRunner(spec::SweepSpec sweep, SweepOptions options);

  /// An error only where nothing could be begun; what happens later is in the outcome's `failure`.
  [[nodiscard]] Result<SweepOutcome> run();

 private:
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> run_mode(const PlannedMode& mode);
  [[nodiscard]] Result<void> run_levels(const PlannedMode& mode, deploy::Deployer& deployer);
  [[nodiscard]] Result<void> keep(const results::LevelRecord& record);
  [[nodiscard]] Result<void> report();

  const spec::SweepSpec sweep_;
  const SweepOptions options_;
  const std::vector<PlannedMode> plan_;
  std::unique_ptr<results::Store> store_;
  std::int64_t run_ = 0;
  SweepOutcome outcome_;
};

}  // namespace kvist::sweep

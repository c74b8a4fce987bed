// The arms of a sweep on live deployments, one measurement after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/loadgen/service.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/agent_load.h"
#include "kvist/sweep/level_load.h"
#include "kvist/sweep/level_runner.h"
#include "kvist/sweep/plan.h"
#include "kvist/sweep/resolve.h"
#include "kvist/sweep/sweep_observer.h"

namespace kvist::sweep {

/// Makes the deployer of one deployment, whose files go into `run_directory`.
using DeployerFactory = std::function<Result<std::unique_ptr<deploy::Deployer>>(const std::string& run_directory)>;

struct LiveOptions {
  DeployerFactory make_deployer;
  Progress progress;
  std::stop_token stop;
  SweepObserver* observer = nullptr;  ///< outlives it; null: nobody watches
};

/// Keeps a deployment ready for the arm that is measured, as spec::CacheProof says: a new one for each of the plan's
/// PlannedModes, or one for all of them, whose caches are emptied before each load or whose conversations never begin
/// as any did before. Blocks. Deployments are killed when the thread that uses it ends. Threads: one.
class LiveLevels {
 public:
  LiveLevels(spec::SweepSpec sweep, LiveOptions options);
  LiveLevels(const LiveLevels&) = delete;
  LiveLevels& operator=(const LiveLevels&) = delete;

  /// Errors: what resolve() finds, and modes that no live gateway has.
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] const ResolvedSweep& resolved() const { return resolved_; }

  /// Makes a deployment ready for measurements of `arm`, if it is not; its logs go to `logs`.
  [[nodiscard]] Result<void> begin(const spec::Arm& arm, const std::string& logs);
  /// One load through `levels` of the arm that was begun.
  [[nodiscard]] Result<void> run(std::span<const PlannedLevel> levels, const KeepLevel& keep);
  /// The arm's measurements in succession are over.
  void end();
  /// Ends what runs.
  void stop();

 private:
  [[nodiscard]] Result<void> start_deployment(const spec::ArmSpec& arm, const std::string& logs);
  [[nodiscard]] Result<std::unique_ptr<LevelLoad>> make_load(const PlannedLevel& level) const;
  [[nodiscard]] loadgen::ServiceOptions load_options(const PlannedLevel& level) const;
  [[nodiscard]] AgentLoadOptions agent_options(const PlannedLevel& level) const;

  const spec::SweepSpec sweep_;  // as written by the user
  const LiveOptions options_;
  const std::vector<spec::ArmSpec> arms_;
  ResolvedSweep resolved_;  // with the settings of the profiles, which is started
  std::uint64_t salt_ = 0;  // of this process's openings, so that no earlier run has left anything of them in a cache
  bool begun_ = false;      // the deployment is ready for the present arm
  std::unique_ptr<deploy::Deployer> deployer_;
};

}  // namespace kvist::sweep

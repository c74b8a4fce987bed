// Measures levels on a running deployment.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/level/level_procedure.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/level_load.h"
#include "kvist/sweep/level_summary.h"
#include "kvist/sweep/plan.h"
#include "kvist/sweep/sweep_observer.h"

namespace kvist::sweep {

/// Receives progress lines.
using Progress = std::function<void(std::string_view line)>;

/// Receives finished records, and may add to them.
using KeepLevel = std::function<Result<void>(results::LevelRecord& record)>;

/// The published method on a live deployment: carries out what level::LevelProcedure asks for, call by call. Blocks.
/// Requires: the references outlive this object. Threads: one.
class LevelRunner {
 public:
  LevelRunner(deploy::Deployer& deployer, LevelLoad& load, const spec::MethodSpec& method, Progress progress,
              std::stop_token stop, SweepObserver* observer = nullptr)
      : deployer_(deployer),
        load_(load),
        method_(method),
        progress_(std::move(progress)),
        stop_(std::move(stop)),
        observer_(observer) {}

  /// One load through all `levels`, in ascending order. On an error, and on kCancelled after a request to stop, the
  /// load has stopped. The levels before the failed one are kept; turns that they had in flight count as abandoned.
  [[nodiscard]] Result<void> run(std::span<const PlannedLevel> levels, const KeepLevel& keep);

 private:
  /// A level whose turns have not all ended yet.
  struct Measured {
    PlannedLevel level;
    results::LevelRecord record;
    loadgen::ClientLoad client_load;
    Duration client_time{};  // the time that client_load covers
  };

  [[nodiscard]] Result<void> measure(level::LevelProcedure& procedure, std::span<const PlannedLevel> levels);
  [[nodiscard]] Result<void> carry_out(const level::LevelAction& action, level::LevelProcedure& procedure,
                                       std::span<const PlannedLevel> levels);
  [[nodiscard]] Result<void> read_counters();
  [[nodiscard]] Result<void> begin(const PlannedLevel& level, level::LevelProcedure& procedure);
  [[nodiscard]] Result<void> take_snapshot(std::uint32_t number);
  [[nodiscard]] Result<void> read_client();
  /// The number of turns still in flight at the deadline; nothing if all ended before.
  [[nodiscard]] Result<std::optional<std::uint32_t>> stop_load(const level::LevelAction& action);
  /// Assigns the turns to their levels, and passes complete levels to `keep`.
  [[nodiscard]] Result<void> hand_on(const level::LevelProcedure& procedure, const KeepLevel& keep);
  [[nodiscard]] Result<void> sleep_until(TimePoint when);
  /// An error if a part of the deployment has died, or one of the load.
  [[nodiscard]] Result<void> check_alive();
  void say(std::string_view what) const;

  deploy::Deployer& deployer_;
  LevelLoad& load_;
  const spec::MethodSpec& method_;
  Progress progress_;
  std::stop_token stop_;
  SweepObserver* observer_;         // null: nobody watches
  std::vector<Measured> measured_;  // the last is in progress
  WorkerReadings readings_;         // of the current level, or of the next one
};

}  // namespace kvist::sweep

// Measures one level on a running deployment.
#pragma once

#include <functional>
#include <stop_token>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/deploy/deployer.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/level_summary.h"
#include "kvist/sweep/load_generator.h"
#include "kvist/sweep/plan.h"

namespace kvist::sweep {

/// One line of what is going on.
using Progress = std::function<void(std::string_view line)>;

/// The published method, once: prove that nothing is in flight, read the counters, drive load, warm up, take the
/// snapshots, let the turns in flight end, prove idleness again, read the counters again. Refers to its parts, which
/// must outlive it. Blocks; one thread.
class LevelRunner {
 public:
  LevelRunner(deploy::Deployer& deployer, LoadGenerator& load, const spec::MethodSpec& method, Progress progress,
              std::stop_token stop)
      : deployer_(deployer), load_(load), method_(method), progress_(std::move(progress)), stop_(std::move(stop)) {}

  /// On an error, and on kCancelled after a request to stop, no load is driven any more.
  [[nodiscard]] Result<results::LevelRecord> run(const PlannedLevel& level);

 private:
  [[nodiscard]] Result<void> measure(const PlannedLevel& level, results::LevelRecord& record);
  [[nodiscard]] Result<void> take_snapshots(results::LevelRecord& record);
  [[nodiscard]] Result<void> take_snapshot(results::LevelRecord& record);
  [[nodiscard]] Result<void> drain(results::LevelRecord& record);
  [[nodiscard]] Result<void> await_idle();
  [[nodiscard]] Result<void> sleep_until(TimePoint when);
  void say(std::string_view what) const;

  deploy::Deployer& deployer_;
  LoadGenerator& load_;
  const spec::MethodSpec& method_;
  Progress progress_;
  std::stop_token stop_;
  PlannedLevel level_;  // under way
  WorkerReadings readings_;
  loadgen::ClientLoad client_load_;
  Duration client_time_{};  // what client_load_ covers
};

}  // namespace kvist::sweep

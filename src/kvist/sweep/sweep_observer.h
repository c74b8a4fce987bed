// Who watches a sweep while it runs.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kvist/deploy/deployer.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/results/records.h"
#include "kvist/sweep/plan.h"
#include "kvist/workload/load_feed.h"

namespace kvist::sweep {

/// Is told what happens, in order. Requires: no call blocks. Threads: the one that runs the sweep.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;

  /// The watch that every load of the sweep is attached to; null: nobody looks at the load itself.
  [[nodiscard]] virtual std::shared_ptr<loadgen::LoadWatch> watch() = 0;
  [[nodiscard]] virtual std::shared_ptr<workload::LoadFeed> feed() = 0;

  /// A mode's deployment is ready.
  virtual void on_deployment(const deploy::Addresses& addresses) = 0;
  /// They are not measured: the results that are resumed have them, or what was to be known is known.
  virtual void on_levels_skipped(std::span<const PlannedLevel> levels) = 0;
  virtual void on_level_begun(const PlannedLevel& level) = 0;
  /// The level's last snapshot is taken; its turns may still run.
  virtual void on_level_measured() = 0;
  virtual void on_level_stored(const results::LevelRecord& record) = 0;
};

}  // namespace kvist::sweep

// Computes a level's record from its readings.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/deploy/worker_metrics.h"
#include "kvist/loadgen/service.h"
#include "kvist/results/records.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::sweep {

/// All readings of the workers over one level. Each inner vector is in the order of the deployment.
struct WorkerReadings {
  std::vector<deploy::WorkerMetrics> before;               ///< while idle before the level
  std::vector<std::vector<deploy::WorkerMetrics>> during;  ///< at the snapshots; fewer if a reading failed
  std::vector<deploy::WorkerMetrics> after;                ///< while idle after the level
};

/// One record per worker. A restarted worker counts from zero, and a remark reports it. Requires: `before` and `after`
/// are of the same workers.
[[nodiscard]] std::vector<results::WorkerLevelRecord> summarise_workers(const WorkerReadings& readings,
                                                                        std::vector<std::string>& remarks);

/// The client's own health, with what its samples certify. `load` was read at the last snapshot; `elapsed` is the time
/// since the start of the level. Requires: `level` has its window and its turns.
[[nodiscard]] results::ClientHealth summarise_client(const loadgen::ClientLoad& load, Duration elapsed,
                                                     const results::LevelRecord& level);

}  // namespace kvist::sweep

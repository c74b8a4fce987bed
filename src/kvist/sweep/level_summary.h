// From readings of a level to its record: plain computations.
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
  std::vector<deploy::WorkerMetrics> before;               ///< idle, before the level
  std::vector<std::vector<deploy::WorkerMetrics>> during;  ///< at the snapshots; fewer where a reading failed
  std::vector<deploy::WorkerMetrics> after;                ///< idle again
};

/// One record per worker. A worker whose process began anew counts from zero, and a remark says so. Requires `before`
/// and `after` of the same workers.
[[nodiscard]] std::vector<results::WorkerLevelRecord> summarise_workers(const WorkerReadings& readings,
                                                                        std::vector<std::string>& remarks);

/// How the client itself did: `load` as read at the last snapshot, `elapsed` since the start of the level.
[[nodiscard]] results::ClientHealth summarise_client(const loadgen::ClientLoad& load, Duration elapsed,
                                                     const std::vector<workload::TurnSample>& turns);

}  // namespace kvist::sweep

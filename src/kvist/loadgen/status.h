// The answer of GET /status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/time.h"
#include "kvist/loadgen/service.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/snapshot.h"

namespace kvist::loadgen {

struct Status {
  std::string_view state;  ///< "idle", "running", "draining"
  std::string target;
  std::string model;
  std::uint32_t concurrency = 0;  ///< 0 when idle, like the seed
  std::uint64_t seed = 0;
  double target_rps = 0;
  std::uint64_t dropped_start_slots = 0;
  std::size_t kept_samples = 0;
  workload::RecorderTotals totals;
  Duration window{};
  workload::Snapshot snapshot;
  std::optional<double> itl_p50_ms, itl_p95_ms, itl_p99_ms;  ///< of all gaps between chunks within the window
  ClientLoad load;
};

[[nodiscard]] std::string status_json(const Status& status);

}  // namespace kvist::loadgen

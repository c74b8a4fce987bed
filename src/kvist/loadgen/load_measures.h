// What a load, or a part of it, has measured up to now: for /status and /metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/snapshot.h"

namespace kvist::loadgen {

inline constexpr std::array<double, 3> kMeasuredQuantiles = {0.5, 0.95, 0.99};

/// Of one kind of duration: quantiles over the window, in the order of kMeasuredQuantiles, and what was counted in all.
struct SeriesMeasures {
  std::array<std::optional<double>, kMeasuredQuantiles.size()> quantiles_ms = {};
  std::uint64_t count = 0;
  double sum_ms = 0;
};

struct LoadMeasures {
  std::array<SeriesMeasures, workload::kLatencyMetricCount> latencies = {};
  SeriesMeasures gaps = {};  ///< between content chunks, pooled
  workload::Snapshot snapshot;
  workload::RecorderTotals totals;
  std::size_t kept_samples = 0;
  std::uint64_t dropped_start_slots = 0;

  [[nodiscard]] const SeriesMeasures& latency(workload::LatencyMetric metric) const {
    return latencies[static_cast<std::size_t>(metric)];
  }
};

[[nodiscard]] LoadMeasures measures_of(const workload::Recorder& recorder, TimePoint now, std::uint32_t in_flight,
                                       std::uint64_t dropped_start_slots);
/// Of parts that each have a random share of one load: counts and rates are sums, quantiles the means of the parts'.
[[nodiscard]] LoadMeasures merge_measures(const std::vector<LoadMeasures>& parts, TimePoint now);

}  // namespace kvist::loadgen

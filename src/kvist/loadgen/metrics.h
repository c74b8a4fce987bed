// The load generator's Prometheus metrics.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/loadgen/service.h"
#include "kvist/telemetry/metrics.h"
#include "kvist/workload/recorder.h"

namespace kvist::loadgen {

/// What the metrics are read from at one instant.
struct MetricsSource {
  const workload::Recorder* recorder = nullptr;
  TimePoint now;
  std::uint32_t in_flight = 0;
  std::uint32_t concurrency = 0;  ///< of the run under way; 0 when idle
  double target_rps = 0;
  std::uint64_t dropped_start_slots = 0;
  ClientLoad load;
};

/// Puts all metrics on a page. Quantiles are exact over the recorder's window (NaN where it has no sample); _count and
/// _sum and all counters grow over the life of the process.
void fill_metrics(telemetry::MetricsPage& page, const MetricsSource& source);

}  // namespace kvist::loadgen

// The load generator's Prometheus metrics.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/loadgen/load.h"
#include "kvist/loadgen/load_measures.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::loadgen {

/// The values from which metrics are written.
struct MetricsSource {
  LoadMeasures measures;
  std::uint32_t concurrency = 0;  ///< the level: of open arrivals starts per minute; 0 when idle
  double target_rps = 0;
  ClientLoad load;
};

/// Writes all metrics to a page. Quantiles are over the window (NaN if it has no sample). _count, _sum
/// and all counters are over the lifetime of the process.
void fill_metrics(telemetry::MetricsPage& page, const MetricsSource& source);

}  // namespace kvist::loadgen

// The worker's metrics, with vLLM's names.
#pragma once

#include "kvist/spec/deployment.h"
#include "kvist/telemetry/metrics.h"
#include "kvist/worker/engine_runner.h"
#include "kvist/worker/generations.h"

namespace kvist::worker {

/// Writes all metrics to the page. `started_unix_s` is the start of this worker's process; a change means a restart.
void write_metrics(telemetry::MetricsPage& page, const spec::WorkerSpec& spec, const EngineRunner& runner,
                   const Generations& generations, double started_unix_s);

}  // namespace kvist::worker

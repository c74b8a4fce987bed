// The worker's numbers under vLLM's names.
#pragma once

#include "kvist/spec/deployment.h"
#include "kvist/telemetry/metrics.h"
#include "kvist/worker/engine_runner.h"
#include "kvist/worker/generations.h"

namespace kvist::worker {

/// Puts everything on the page. `started_unix_s` is when this process' worker began: a change tells a restart.
void write_metrics(telemetry::MetricsPage& page, const spec::WorkerSpec& spec, const EngineRunner& runner,
                   const Generations& generations, double started_unix_s);

}  // namespace kvist::worker

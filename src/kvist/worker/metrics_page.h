// The worker's metrics, with vLLM's names.
#pragma once

#include "kvist/net/http_server_report.h"
#include "kvist/net/tls.h"
#include "kvist/net/work_pool.h"
#include "kvist/spec/deployment.h"
#include "kvist/telemetry/metrics.h"
#include "kvist/worker/engine_runner.h"
#include "kvist/worker/generations.h"
#include "kvist/worker/key_check.h"

namespace kvist::worker {

struct MetricSources {
  const EngineRunner& runner;
  const Generations& generations;
  net::WorkPool::Counters reading;      ///< of large bodies
  net::HttpServerReport listener;       ///< the one for clients
  const KeyCheck* keys = nullptr;       ///< null: requests need none
  const net::TlsServer* tls = nullptr;  ///< null: plain HTTP
  double started_unix_s = 0;            ///< of this worker's process; a change means a restart
};

/// Writes all metrics to the page.
void write_metrics(telemetry::MetricsPage& page, const spec::WorkerSpec& spec, const MetricSources& sources);

}  // namespace kvist::worker

// The gateway's /metrics.
#pragma once

#include "kvist/gateway/served_models.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// Writes all metrics of the gateway to the page. `reports` is what its threads counted. All names begin with
/// kvist_gateway_, apart from those of the process and kvist_build_info. If the settings have a list of models, what
/// belongs to one of them has the label `model`. Threads: the loop that routes, which owns the parts.
void write_metrics(const SharedParts& shared, const ServedModels::Reports& reports, telemetry::MetricsPage& page);

}  // namespace kvist::gateway

// The gateway's /metrics.
#pragma once

#include "kvist/gateway/gateway_parts.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// Writes all metrics of the gateway to the page. `reports` is what its threads counted. All names begin with
/// kvist_gateway_, apart from those of the process and kvist_build_info. Threads: the loop that routes, which owns the
/// parts.
void write_metrics(const GatewayParts& parts, const GatewayParts::Reports& reports, telemetry::MetricsPage& page);

}  // namespace kvist::gateway

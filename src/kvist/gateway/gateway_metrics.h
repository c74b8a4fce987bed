// The gateway's /metrics.
#pragma once

#include "kvist/gateway/gateway_parts.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// Puts all metrics of the gateway on the page. All names begin with kvist_gateway_.
void write_metrics(const GatewayParts& parts, telemetry::MetricsPage& page);

}  // namespace kvist::gateway

// The gateway's /metrics.
#pragma once

#include "kvist/gateway/gateway_parts.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// Puts all metrics of the gateway on the page, `proxies` being what its proxies counted. All names begin with
/// kvist_gateway_.
void write_metrics(const GatewayParts& parts, const ProxyReport& proxies, telemetry::MetricsPage& page);

}  // namespace kvist::gateway

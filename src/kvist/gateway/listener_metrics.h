// What the gateway's listeners have open and refuse, as metrics.
#pragma once

#include "kvist/net/http_server_report.h"
#include "kvist/telemetry/metrics.h"

namespace kvist::gateway {

/// `listeners`: the sum of those for clients.
void write_listener_metrics(const net::HttpServerReport& listeners, telemetry::MetricsPage& page);

}  // namespace kvist::gateway

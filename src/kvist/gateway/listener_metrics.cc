#include "kvist/gateway/listener_metrics.h"

#include <string>

namespace kvist::gateway {

void write_listener_metrics(const net::HttpServerReport& listeners, telemetry::MetricsPage& page) {
  for (const auto& [state, count] : listeners.by_state())
    page.gauge("kvist_gateway_connections",
               "Clients' connections: with a request or a part of one, idle, or in a place kept for health",
               static_cast<double>(count), {{"state", std::string(state)}});
  for (const auto& [reason, count] : listeners.closed())
    page.counter(
        "kvist_gateway_connections_closed_total",
        "Connections closed for want of a place: idle ones that made room, newcomers that found none, those of "
        "an address that had too many",
        static_cast<double>(count), {{"reason", std::string(reason)}});
  for (std::size_t i = 0; i < listeners.refused.size(); ++i)
    page.counter("kvist_gateway_http_refused_total",
                 "Requests that the HTTP server answered by itself: malformed, too large, too slow, or without a place",
                 static_cast<double>(listeners.refused[i]),
                 {{"status", std::to_string(net::HttpServerReport::kStatuses[i])}});
}

}  // namespace kvist::gateway

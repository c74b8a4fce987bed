// The admin endpoints: setting the routing mode at run time; the decisions and the gateway's state as JSON.
#pragma once

#include <memory>

#include "kvist/gateway/gateway_parts.h"
#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

// Threads: the loop that routes, which owns the parts.

/// GET /admin/router_mode: {"mode":"kv"}
[[nodiscard]] net::HttpResponse get_router_mode(const GatewayParts& parts);
/// PUT or POST /admin/router_mode with {"mode":"round_robin"}: the mode takes effect with the next request. Index and
/// loads are kept.
[[nodiscard]] net::HttpResponse set_router_mode(GatewayParts& parts, const net::HttpRequest& request);
/// GET /admin/decisions?limit=N&request=ID: recent decisions, newest first (docs/formats/decisions.md). The answer ends
/// after 8 MiB; then "more" is true.
[[nodiscard]] net::HttpResponse get_decisions(const GatewayParts& parts, const net::HttpRequest& request);
/// GET /admin/status
[[nodiscard]] net::HttpResponse get_status(const GatewayParts& parts, const KvEventsReport& events);

}  // namespace kvist::gateway

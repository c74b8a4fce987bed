// The options of the listener for clients.
#pragma once

#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Without what depends on the number of loops. Listeners that are made from copies of it count the connections of an
/// address together.
[[nodiscard]] net::HttpServerOptions public_listener(const spec::GatewaySpec& gateway);

}  // namespace kvist::gateway

// The options of the listener for clients.
#pragma once

#include <memory>

#include "kvist/net/http_server.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Without what depends on the number of loops. Listeners that are made from copies of it count the connections of an
/// address together.
[[nodiscard]] net::HttpServerOptions public_listener(const spec::GatewaySpec& gateway);
/// The certificate of a listener; null if it has none.
[[nodiscard]] Result<std::shared_ptr<net::TlsServer>> load_tls(const spec::ServerTlsSpec& tls);

}  // namespace kvist::gateway

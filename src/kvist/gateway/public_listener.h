// The options of the listener for clients.
#pragma once

#include <memory>

#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/request_reporter.h"
#include "kvist/net/http_server.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Without what depends on the number of loops. Listeners that are made from copies of it count the connections of an
/// address together.
[[nodiscard]] net::HttpServerOptions public_listener(const spec::GatewaySpec& gateway);
/// Refuses strangers' bodies, in the form of the API that they ask for, and reports that. `reporter` may be null. Empty
/// if no keys are asked for. Requires: both outlive it.
[[nodiscard]] net::HttpHeadCheck stranger_check(KeyGate* keys, RequestReporter* reporter);
/// The certificate of a listener; null if it has none.
[[nodiscard]] Result<std::shared_ptr<net::TlsServer>> load_tls(const spec::ServerTlsSpec& tls);

}  // namespace kvist::gateway

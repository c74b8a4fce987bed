// The options of the listener for clients.
#pragma once

#include <memory>

#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/request_reporter.h"
#include "kvist/net/http_server.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// The options that do not depend on the number of loops. Listeners that are made from copies of them count the
/// connections of an address together.
[[nodiscard]] net::HttpServerOptions public_listener(const spec::GatewaySpec& gateway);
/// Refuses requests without a good key before their bodies are read, in the form of the API that they ask for, and
/// reports the refusal. `reporter` may be null. Empty if no keys are asked for. Requires: both outlive it.
[[nodiscard]] net::HttpHeadCheck stranger_check(KeyGate* keys, RequestReporter* reporter);
/// The certificate of a listener; null if it has none.
[[nodiscard]] Result<std::shared_ptr<net::TlsServer>> load_tls(const spec::ServerTlsSpec& tls);

}  // namespace kvist::gateway

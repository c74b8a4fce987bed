// The options of the worker's listener for clients.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::worker {

/// Without TLS and keys. `descriptors`: what the process may open, of which some are kept for other things than
/// clients.
[[nodiscard]] net::HttpServerOptions client_listener(const spec::WorkerSpec& worker, std::uint64_t descriptors);

/// The certificate of a listener; null if it has none.
[[nodiscard]] Result<std::shared_ptr<net::TlsServer>> load_tls(const spec::ServerTlsSpec& tls);

}  // namespace kvist::worker

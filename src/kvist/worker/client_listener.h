// The options of the worker's listener for clients.
#pragma once

#include <cstdint>

#include "kvist/net/http_server.h"
#include "kvist/spec/deployment.h"

namespace kvist::worker {

/// Without TLS and keys. `descriptors`: what the process may open, of which some are kept for other things than
/// clients.
[[nodiscard]] net::HttpServerOptions client_listener(const spec::WorkerSpec& worker, std::uint64_t descriptors);

}  // namespace kvist::worker

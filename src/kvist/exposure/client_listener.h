// A listener for clients, as the settings of a service expose it.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/http_server.h"
#include "kvist/net/tls.h"
#include "kvist/spec/exposure_spec.h"

namespace kvist::exposure {

/// The settings of a gateway or a worker that bound what its clients may take, by reference, for the length of a call.
struct ClientBounds {
  const spec::Endpoint& http;
  const spec::HttpLimitsSpec& limits;
  std::uint64_t max_body_bytes;
  const spec::CorsSpec& cors;
};

/// Without TLS and keys. Some places are kept for `/health`, which answers when clients have taken all others.
/// Listeners that are made from copies of these options count the connections of an address together.
[[nodiscard]] net::HttpServerOptions client_listener(const ClientBounds& bounds);

/// The certificate of a listener; null if it has none. Errors: a file is missing or is none of its kind.
[[nodiscard]] Result<std::shared_ptr<net::TlsServer>> load_tls(const spec::ServerTlsSpec& tls);

}  // namespace kvist::exposure

#include "kvist/exposure/client_listener.h"

#include "kvist/net/connections_by_address.h"

namespace kvist::exposure {

net::HttpServerOptions client_listener(const ClientBounds& bounds) {
  constexpr std::uint32_t kReservedForHealth = 8;
  const spec::HttpLimitsSpec& limits = bounds.limits;
  net::HttpServerOptions options{
      .host = bounds.http.host,
      .port = bounds.http.port,
      .max_body_bytes = bounds.max_body_bytes,
      .max_header_bytes = limits.head_bytes,
      .max_connections = limits.connections,
      .reserved_connections = kReservedForHealth,
      .is_reserved = [](const net::HttpRequest& request) { return request.path() == "/health"; },
      .head_timeout = limits.head_timeout,
      .body_timeout = limits.body_timeout,
      .idle_timeout = limits.idle_timeout,
      .least_read_rate = limits.least_read_rate,
      .browsers = net::BrowserPolicy{.origins = bounds.cors.origins}};
  if (limits.connections_per_address > 0)
    options.by_address = std::make_shared<net::ConnectionsByAddress>(limits.connections_per_address);
  return options;
}

// The enumerations of the settings and of the network have the same members in the same order.
static_assert(static_cast<int>(spec::ClientCertificates::kRequired) ==
                  static_cast<int>(net::ClientCertificates::kRequired) &&
              static_cast<int>(spec::ClientCertificates::kOptional) ==
                  static_cast<int>(net::ClientCertificates::kOptional));

Result<std::shared_ptr<net::TlsServer>> load_tls(const spec::ServerTlsSpec& tls) {
  if (tls.certificate.empty()) return nullptr;
  return net::TlsServer::load({.certificate = tls.certificate,
                               .key = tls.key,
                               .client_ca = tls.client_ca,
                               .client_certificates = static_cast<net::ClientCertificates>(tls.client_certificates)});
}

}  // namespace kvist::exposure

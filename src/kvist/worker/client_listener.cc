#include "kvist/worker/client_listener.h"

#include <algorithm>
#include <memory>

#include "kvist/net/connections_by_address.h"
#include "kvist/net/tls.h"

namespace kvist::worker {
namespace {

/// Subscribers to KV events, administration, the model's files. Without them idle clients would use up all descriptors,
/// and a worker that can accept nobody cannot close one for another either.
std::uint32_t most_connections(std::uint32_t configured, std::uint64_t descriptors) {
  constexpr std::uint64_t kOthers = 512;
  constexpr std::uint64_t kLeast = 16;
  const std::uint64_t left = std::max(kLeast, descriptors - std::min(descriptors, kOthers));
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(configured, left));
}

}  // namespace

net::HttpServerOptions client_listener(const spec::WorkerSpec& worker, std::uint64_t descriptors) {
  constexpr std::uint32_t kReservedForHealth = 8;
  const spec::HttpLimitsSpec& limits = worker.http_limits;
  net::HttpServerOptions options{
      .host = worker.http.host,
      .port = worker.http.port,
      .max_body_bytes = worker.max_body_bytes,
      .max_header_bytes = limits.head_bytes,
      .max_connections = most_connections(limits.connections, descriptors),
      .reserved_connections = kReservedForHealth,
      .is_reserved = [](const net::HttpRequest& request) { return request.path() == "/health"; },
      .head_timeout = limits.head_timeout,
      .body_timeout = limits.body_timeout,
      .idle_timeout = limits.idle_timeout,
      .least_read_rate = limits.least_read_rate,
      .browsers = net::BrowserPolicy{.origins = worker.cors.origins}};
  if (limits.connections_per_address > 0)
    options.by_address = std::make_shared<net::ConnectionsByAddress>(limits.connections_per_address);
  return options;
}

// The settings' word and the network's are the same in the same order.
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

}  // namespace kvist::worker

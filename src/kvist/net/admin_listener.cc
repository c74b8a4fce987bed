#include "kvist/net/admin_listener.h"

#include <string_view>

namespace kvist::net {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

HttpServerOptions admin_listener(const std::string& host, std::uint16_t port) {
  constexpr std::uint32_t kConnections = 64;
  constexpr std::uint64_t kBodyBytes = 64U << 10;
  return {.host = host,
          .port = port,
          .max_body_bytes = kBodyBytes,
          .max_bodies_bytes = kConnections * kBodyBytes,
          .max_connections = kConnections,
          .browsers = BrowserPolicy{.changes_need_json = true, .own_names_only = is_loopback(host)}};
}

}  // namespace kvist::net

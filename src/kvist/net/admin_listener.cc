#include "kvist/net/admin_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>

namespace kvist::net {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool is_any_address(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  if (::inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  constexpr std::uint32_t kLastFour = 12;
  return IN6_IS_ADDR_UNSPECIFIED(&v6) ||
         (IN6_IS_ADDR_V4MAPPED(&v6) &&
          std::all_of(v6.s6_addr + kLastFour, std::end(v6.s6_addr), [](auto b) { return b == 0; }));
}

HttpServerOptions admin_listener(const std::string& host, std::uint16_t port, bool asks_who) {
  const bool reached_from_here = is_loopback(host) || (is_any_address(host) && !asks_who);
  constexpr std::uint32_t kConnections = 64;
  constexpr std::uint64_t kBodyBytes = 64U << 10;
  return {.host = host,
          .port = port,
          .max_body_bytes = kBodyBytes,
          .max_bodies_bytes = kConnections * kBodyBytes,
          .max_connections = kConnections,
          .browsers = BrowserPolicy{.changes_need_json = true, .own_names_only = reached_from_here}};
}

}  // namespace kvist::net

// The options of a listener for administration.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/net/http_server.h"

namespace kvist::net {

/// Few connections, small bodies, and nothing that a web page could have a browser send. On a loopback address, a name
/// in Host other than localhost is refused as well.
[[nodiscard]] HttpServerOptions admin_listener(const std::string& host, std::uint16_t port);

/// Whether the address or name is one of the loopback interface.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace kvist::net

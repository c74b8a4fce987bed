// The options of a listener for administration.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/net/http_server.h"

namespace kvist::net {

/// Few connections, small bodies, and nothing that a web page could have a browser send. On a loopback address, and on
/// all addresses (which a browser on this machine reaches as well), a name in Host other than localhost is refused too,
/// unless the listener `asks_who`: a page has neither key nor certificate.
[[nodiscard]] HttpServerOptions admin_listener(const std::string& host, std::uint16_t port, bool asks_who = false);

/// Whether the address or name is one of the loopback interface.
[[nodiscard]] bool is_loopback(const std::string& host);
/// Whether it stands for all addresses of the machine: 0.0.0.0 or ::, however they are written.
[[nodiscard]] bool is_any_address(const std::string& host);

}  // namespace kvist::net

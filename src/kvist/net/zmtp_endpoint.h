// Private to net: where a ZeroMQ peer is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::net {

struct ZmtpEndpoint {
  std::string host;  ///< a name or an address; empty if `listens`
  std::uint16_t port = 0;
  std::string path;      ///< of a Unix socket; then there is no host
  bool listens = false;  ///< on all addresses: publishers connect to us
};

/// Reads "tcp://host:port", "tcp://[address]:port", "tcp://*:port" (listens) and "ipc:///path".
[[nodiscard]] Result<ZmtpEndpoint> parse_zmtp_endpoint(std::string_view text);

}  // namespace kvist::net

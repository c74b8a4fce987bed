// Whether a port is free, and what answers on one. For tools: all of this blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"

namespace kvist::net {

/// Binds the port for a moment. Port 0 is always free. Errors: why nobody could listen there.
[[nodiscard]] Result<void> probe_listen(const std::string& host, std::uint16_t port);

/// Connects to "tcp://host:port" and waits for the greeting of a ZeroMQ socket; says nothing itself. Errors: no
/// connection, or something else answers there. Addresses that are not TCP cannot be tried, and give no error.
[[nodiscard]] Result<void> probe_zmq(std::string_view address, Duration timeout);

}  // namespace kvist::net

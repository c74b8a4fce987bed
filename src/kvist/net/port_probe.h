// Whether a port is free, and what answers on one. For tools: all of this blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"

namespace kvist::net {

/// Binds the port for a moment. Port 0 is always free. Errors: why nobody could listen there.
[[nodiscard]] Result<void> probe_listen(const std::string& host, std::uint16_t port);

/// Connects to "tcp://host:port" and waits until a ZeroMQ socket says of what type it is: one of `peer_types`, as
/// {"PUB", "XPUB"}. Errors: no connection, or something else answers there. A socket that keeps its type to itself
/// until it knows ours gives none, nor do addresses that are not TCP and cannot be tried.
[[nodiscard]] Result<void> probe_zmq(std::string_view address, std::vector<std::string_view> peer_types,
                                     Duration timeout);

}  // namespace kvist::net

// Private to net: SIGINT and SIGTERM as something a loop can read.
#pragma once

#include "kvist/net/socket.h"

namespace kvist::net {

/// An eventfd that becomes readable with each SIGINT or SIGTERM of the process while it is registered. From the first
/// registration to the end of the last the signals do nothing else. Thread-safe. At most 64 at a time.
[[nodiscard]] UniqueFd register_for_termination();
/// Before it is closed.
void unregister_from_termination(const UniqueFd& registered);

}  // namespace kvist::net

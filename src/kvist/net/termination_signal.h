// Private to net: makes SIGINT and SIGTERM readable for loops.
#pragma once

#include "kvist/net/socket.h"

namespace kvist::net {

/// An eventfd that becomes readable with each SIGINT or SIGTERM of the process while it is registered. While any is
/// registered, the signals have no other effect. Requires: at most 64 at a time. Threads: any.
[[nodiscard]] UniqueFd register_for_termination();
/// Requires: it is called before the descriptor is closed.
void unregister_from_termination(const UniqueFd& registered);

}  // namespace kvist::net

// Private to net: makes signals of the process readable for loops.
#pragma once

#include <cstdint>

#include "kvist/net/socket.h"

namespace kvist::net {

enum class ProcessSignal : std::uint8_t {
  kTermination,  ///< SIGINT and SIGTERM
  kHangup,       ///< SIGHUP, by which a service is asked to read its files again
};

/// An eventfd that becomes readable with each such signal of the process while it is registered. While any is
/// registered, the signal has no other effect. Requires: at most 64 of each kind at a time. Threads: any.
[[nodiscard]] UniqueFd register_for(ProcessSignal kind);
/// Requires: it is called before the descriptor is closed.
void unregister_from(ProcessSignal kind, const UniqueFd& registered);

}  // namespace kvist::net

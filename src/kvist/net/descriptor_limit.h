// How many sockets a process may have.
#pragma once

#include <cstdint>

namespace kvist::net {

/// Raises the soft limit of open file descriptors to the hard one, as far as the system allows it, and returns what
/// holds then. Shells and systemd set the soft one to 1,024 for the sake of select(), which is not used here. Threads:
/// any.
std::uint64_t raise_descriptor_limit();

}  // namespace kvist::net

// SIGHUP, by which a service is asked to read its files again.
#pragma once

namespace kvist::net {

/// From here on SIGHUP does not end the process. Threads: any.
void listen_for_hangup();
/// Whether it came since this was last asked. Threads: any.
[[nodiscard]] bool take_hangup();

}  // namespace kvist::net

// The local time, for output that people read.
#pragma once

#include <chrono>

namespace kvist::net {

/// The current time in the machine's time zone. Threads: any.
[[nodiscard]] std::chrono::local_seconds local_time();

}  // namespace kvist::net

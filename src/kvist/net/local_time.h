// The time of day, for what people read.
#pragma once

#include <chrono>

namespace kvist::net {

/// The present in the machine's time zone. Any thread.
[[nodiscard]] std::chrono::local_seconds local_time();

}  // namespace kvist::net

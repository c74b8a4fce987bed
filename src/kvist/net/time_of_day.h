// The time of day, for records, file names and display. Decisions use net::now() instead.
#pragma once

#include <chrono>
#include <string>

namespace kvist::net {

// Any thread.

/// Seconds since 1970, with fractions.
[[nodiscard]] double unix_seconds();
/// The current time in the machine's time zone.
[[nodiscard]] std::chrono::local_seconds local_time();
/// "2026-11-21T03:17:23Z".
[[nodiscard]] std::string utc_now();
/// "20261121-031723": sorts by time, valid in file names.
[[nodiscard]] std::string utc_stamp();

}  // namespace kvist::net

// The time of day, for records and file names.
#pragma once

#include <string>

namespace kvist::sweep {

/// "2026-11-21T03:17:23Z".
[[nodiscard]] std::string utc_now();
/// "20261121-031723", which sorts by time and can be used in file names.
[[nodiscard]] std::string utc_stamp();

}  // namespace kvist::sweep

#include "kvist/sweep/utc.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace kvist::sweep {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::string utc_stamp() {
  return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace kvist::sweep

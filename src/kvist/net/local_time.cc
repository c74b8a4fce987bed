#include "kvist/net/local_time.h"

#include <ctime>

namespace kvist::net {

std::chrono::local_seconds local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  return std::chrono::local_seconds(std::chrono::seconds(now + parts.tm_gmtoff));
}

}  // namespace kvist::net

// Ids of requests.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// Names requests: as their clients do, or else with an id that no other request has. Threads: any.
class RequestIds {
 public:
  /// Two objects with different seeds make different ids.
  explicit RequestIds(std::uint64_t seed) : seed_(seed) {}

  [[nodiscard]] std::string of(const net::Headers& request);

 private:
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> made_ = 0;
};

}  // namespace kvist::gateway

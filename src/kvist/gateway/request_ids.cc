#include "kvist/gateway/request_ids.h"

#include <fmt/format.h>

#include "kvist/base/random.h"
#include "kvist/gateway/proxy_headers.h"

namespace kvist::gateway {

std::string RequestIds::of(const net::Headers& request) {
  if (const auto given = given_request_id(request); !given.empty()) return std::string(given);
  const std::uint64_t number = made_.fetch_add(1, std::memory_order_relaxed) + 1;
  return fmt::format("req-{:016x}{:08x}", mix_seed({seed_, number}), number & 0xFFFF'FFFFU);
}

}  // namespace kvist::gateway

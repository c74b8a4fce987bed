// What the gateway's GET /admin/status says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::deploy {

struct GatewayWorkerStatus {
  std::string name;
  bool healthy = false;
  std::uint64_t in_flight = 0;
  std::uint64_t indexed_blocks = 0;
};

struct GatewayStatus {
  std::string mode;
  std::uint64_t in_flight = 0;
  std::vector<GatewayWorkerStatus> workers;
};

/// Fields it does not know are passed over; kCorrupt where one it needs is missing or of another kind.
[[nodiscard]] Result<GatewayStatus> parse_gateway_status(std::string_view json);

}  // namespace kvist::deploy

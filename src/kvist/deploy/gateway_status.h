// The answer of the gateway's GET /admin/status.
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

/// Unknown fields are ignored. Errors: kCorrupt if a required field is missing or of another kind.
[[nodiscard]] Result<GatewayStatus> parse_gateway_status(std::string_view json);

}  // namespace kvist::deploy

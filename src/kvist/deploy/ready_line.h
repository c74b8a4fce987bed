// The line that a service prints when it is ready.
#pragma once

#include <cstdint>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::deploy {

/// The ports of a service; 0 if it does not have that one.
struct ReadyPorts {
  std::uint16_t http = 0;
  std::uint16_t admin = 0;
  std::uint16_t kv_events = 0;
  std::uint16_t kv_replay = 0;

  bool operator==(const ReadyPorts&) const = default;
};

/// Reads "ready http=8000 admin=8001 kv_events=5557 kv_replay=5558"; `http` must be there, unknown names are ignored.
[[nodiscard]] Result<ReadyPorts> parse_ready_line(std::string_view line);

}  // namespace kvist::deploy

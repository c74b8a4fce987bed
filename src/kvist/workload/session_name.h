// The client's name for the session of a conversation.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "kvist/base/id.h"

namespace kvist::workload {

/// X-Session-ID of all turns of a conversation. The load generator sends it and the simulation routes by it.
[[nodiscard]] inline std::string session_name(std::uint64_t run_seed, ConversationId conversation) {
  return fmt::format("{}-{}", run_seed, conversation.value());
}

}  // namespace kvist::workload

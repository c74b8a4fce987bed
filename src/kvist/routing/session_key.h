// Which session a request belongs to, as a number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/random.h"

namespace kvist::routing {

/// Longer names are no sessions: nobody means them so, and hashing them costs.
inline constexpr std::size_t kMaxSessionNameBytes = 1'024;

/// The key of a session by the client's name for it; 0, no session, for an empty or overlong one. The same name gives
/// the same key in every gateway.
[[nodiscard]] inline std::uint64_t session_key(std::string_view name) {
  if (name.empty() || name.size() > kMaxSessionNameBytes) return 0;
  return std::max<std::uint64_t>(mix_seed({seed_part("session"), seed_part(name)}), 1);
}

}  // namespace kvist::routing

// Which session a request belongs to, as a number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kvist/base/random.h"

namespace kvist::routing {

/// Longer names are ignored, because they are hardly meant as sessions and take time to hash.
inline constexpr std::size_t kMaxSessionNameBytes = 1'024;

/// The key of a session, from the client's name for it. An empty or overlong name gives 0, which means no session. The
/// same name gives the same key in every gateway.
[[nodiscard]] inline std::uint64_t session_key(std::string_view name) {
  if (name.empty() || name.size() > kMaxSessionNameBytes) return 0;
  return std::max<std::uint64_t>(mix_seed({seed_part("session"), seed_part(name)}), 1);
}

}  // namespace kvist::routing

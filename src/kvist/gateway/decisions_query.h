// The query of the admin endpoint for recorded decisions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::gateway {

/// GET /admin/decisions?limit=N&request=ID
struct DecisionsQuery {
  std::size_t limit = 20;
  std::string request = {};  ///< X-Request-Id; empty: any
};

inline constexpr std::size_t kMaxDecisionsLimit = 512;

/// Reads the part of the target behind '?'. Values may be percent-encoded. Unknown keys and numbers out of range are
/// errors, whose message says what would be right.
[[nodiscard]] Result<DecisionsQuery> parse_decisions_query(std::string_view target);

}  // namespace kvist::gateway

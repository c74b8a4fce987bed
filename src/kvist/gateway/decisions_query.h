// The queries of the admin endpoints.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::gateway {

/// The fields of the part of the target behind '?', in its order, percent-decoded. Errors: kInvalidArgument.
[[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> query_fields(std::string_view target);

/// GET /admin/decisions?limit=N&request=ID&model=NAME
struct DecisionsQuery {
  std::size_t limit = 20;
  std::string request = {};  ///< X-Request-Id; empty: any
  std::string model = {};    ///< name or alias; empty: not said
};

inline constexpr std::size_t kMaxDecisionsLimit = 512;

/// Reads the part of the target behind '?'. Unknown keys and numbers out of range are
/// errors, whose message says what would be right.
[[nodiscard]] Result<DecisionsQuery> parse_decisions_query(std::string_view target);

}  // namespace kvist::gateway

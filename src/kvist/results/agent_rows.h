// The agents of a level as rows of the database, and back. Private to the module.
#pragma once

#include <cstdint>

#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

/// Requires: the caller holds the transaction.
[[nodiscard]] Result<void> insert_agents(const Connection& connection, std::int64_t level,
                                         const std::vector<LoadAgent>& agents);
[[nodiscard]] Result<std::vector<LoadAgent>> select_agents(const Connection& connection, std::int64_t level);

}  // namespace kvist::results

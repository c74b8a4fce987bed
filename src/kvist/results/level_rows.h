// One level as rows of the database, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/results/records.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

/// Writes a level behind those the run has. The caller holds the transaction and knows that the run exists.
[[nodiscard]] Result<void> insert_level(const Connection& connection, std::int64_t run, const LevelRecord& level);

/// All levels of a run with their rows, in the order they were written.
[[nodiscard]] Result<std::vector<LevelRecord>> select_levels(const Connection& connection, std::int64_t run);

}  // namespace kvist::results

// The tables of a results database (docs/formats/results.md).
#pragma once

#include <cstdint>

#include "kvist/base/error.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

/// "kvst" in ASCII: how file(1) and we tell a results database from any other SQLite file.
inline constexpr std::int32_t kApplicationId = 0x6b767374;
/// Stored as user_version; counted up with every change of the tables.
inline constexpr std::int32_t kSchemaVersion = 3;

/// Creates the tables in an empty database; in any other one proves that it is ours: application id, version, and the
/// tables exactly as its version creates them, without triggers; an older version is then rewritten as this one. After
/// it, a query means what its text says.
[[nodiscard]] Result<void> prepare_schema(const Connection& connection);

}  // namespace kvist::results

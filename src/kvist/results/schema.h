// The tables of a results database (docs/formats/results.md).
#pragma once

#include <cstdint>

#include "kvist/base/error.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

/// "kvst" in ASCII, by which file(1) and kvist recognise a results database.
inline constexpr std::int32_t kApplicationId = 0x6b767374;
/// Stored as user_version; incremented with every change of the tables.
inline constexpr std::int32_t kSchemaVersion = 7;

/// Creates the tables in an empty database. In any other one checks that it is kvist's: application id, version, and
/// tables exactly as its version creates them, without triggers. An older version is then converted to this one.
/// Ensures: queries mean what their text says.
[[nodiscard]] Result<void> prepare_schema(const Connection& connection);
/// The same for a file that is only read: the connection itself or, if the file is of an older version, one of a copy
/// that was converted. Errors: as there; an empty database.
[[nodiscard]] Result<Connection> readable(Connection connection);

}  // namespace kvist::results

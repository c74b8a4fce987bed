// Checks that the tables of a file are exactly those that kvist creates. Private to the module.
#pragma once

#include <span>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

struct Table {
  std::string_view name;
  std::string_view sql;  ///< as stored in sqlite_schema
};

/// Checks that each table has this text and that there are no triggers. Ensures: queries mean what their text says.
[[nodiscard]] Result<void> check_tables(const Connection& connection, std::span<const Table> tables);

}  // namespace kvist::results

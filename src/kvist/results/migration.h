// Brings files of older schema versions up to date. Private to the module.
#pragma once

#include "kvist/base/error.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

/// Converts a file of schema 1 to schema 2 in one transaction. First checks that the tables are those of schema 1.
/// `create_tables` creates the tables of schema 2 within the transaction.
[[nodiscard]] Result<void> migrate_from_1(const Connection& connection,
                                          Result<void> (*create_tables)(const Connection& connection));

}  // namespace kvist::results

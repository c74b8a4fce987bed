// Brings files of older schema versions up to date. Private to the module.
#pragma once

#include "kvist/base/error.h"
#include "kvist/results/sqlite.h"

namespace kvist::results {

/// Rewrites a file of schema 1 as schema 2, in one transaction: it is one or the other, never between. Proves first
/// that the tables are those of schema 1. `create_tables` makes the tables of schema 2 in the transaction it is called
/// in.
[[nodiscard]] Result<void> migrate_from_1(const Connection& connection,
                                          Result<void> (*create_tables)(const Connection& connection));

}  // namespace kvist::results

#include "kvist/results/table_check.h"

#include <fmt/format.h>

#include <string>

namespace kvist::results {

Result<void> check_tables(const Connection& connection, std::span<const Table> tables) {
  KVIST_TRY(Statement find, connection.prepare("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1"));
  for (const Table& table : tables) {
    find.bind_all(table.name);
    KVIST_TRY(const bool there, find.step());
    const std::string sql = there ? find.text() : std::string();
    if (there) KVIST_TRY_VOID(find.step());
    if (sql != table.sql) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: table {} is {}", connection.path(), table.name,
                                                   there ? "not as kvist creates it" : "missing"));
    }
  }
  KVIST_TRY(const std::int64_t triggers,
            connection.query_integer("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'"));
  if (triggers != 0) return fail(ErrorCode::kCorrupt, connection.path() + ": has triggers, which kvist never creates");
  return {};
}

}  // namespace kvist::results

#include "kvist/results/schema.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

namespace kvist::results {
namespace {

struct Table {
  std::string_view name;
  std::string_view sql;  // as sqlite_schema keeps it
};

constexpr std::array kTables = {
    Table{"runs", R"sql(CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  started_utc TEXT NOT NULL,
  finished_utc TEXT NOT NULL,
  kvist_version TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  spec_yaml TEXT NOT NULL
) STRICT)sql"},
    Table{"machine", R"sql(CREATE TABLE machine (
  run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, key)
) STRICT)sql"},
    Table{"levels", R"sql(CREATE TABLE levels (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  mode TEXT NOT NULL,
  concurrency INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  started_utc TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  measure_from_ns INTEGER NOT NULL,
  measure_to_ns INTEGER NOT NULL,
  UNIQUE (run, position)
) STRICT)sql"},
    Table{"snapshots", R"sql(CREATE TABLE snapshots (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  at_ns INTEGER NOT NULL,
  ttft_p50_ms REAL,
  ttft_p95_ms REAL,
  tpot_p50_ms REAL,
  tpot_p95_ms REAL,
  itl_p50_ms REAL,
  itl_p95_ms REAL,
  latency_p50_ms REAL,
  latency_p95_ms REAL,
  output_tokens_per_s REAL NOT NULL,
  turns_per_s REAL NOT NULL,
  conversation_starts_per_s REAL NOT NULL,
  error_pct REAL NOT NULL,
  in_flight INTEGER NOT NULL,
  PRIMARY KEY (level, position)
) STRICT)sql"},
    Table{"turns", R"sql(CREATE TABLE turns (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  conversation INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  error TEXT NOT NULL,
  worker TEXT NOT NULL,
  intended_ns INTEGER NOT NULL,
  sent_ns INTEGER NOT NULL,
  first_token_ns INTEGER NOT NULL,
  last_token_ns INTEGER NOT NULL,
  ended_ns INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  predicted_cached_tokens INTEGER,
  gaps_ms BLOB NOT NULL,
  PRIMARY KEY (level, position)
) STRICT)sql"},
    Table{"workers", R"sql(CREATE TABLE workers (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  worker TEXT NOT NULL,
  prefix_query_tokens INTEGER NOT NULL,
  prefix_hit_tokens INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  prefilled_tokens INTEGER NOT NULL,
  generated_tokens INTEGER NOT NULL,
  evictions INTEGER NOT NULL,
  preemptions INTEGER NOT NULL,
  restarts INTEGER NOT NULL,
  acceptance_rate REAL,
  kv_usage_max REAL NOT NULL,
  running_mean REAL NOT NULL,
  waiting_max REAL NOT NULL,
  PRIMARY KEY (level, position)
) STRICT)sql"},
    Table{"client_health", R"sql(CREATE TABLE client_health (
  level INTEGER PRIMARY KEY REFERENCES levels (id) ON DELETE CASCADE,
  loop_delay_p99_ms REAL NOT NULL,
  loop_delay_max_ms REAL NOT NULL,
  cpu_share REAL NOT NULL,
  send_delay_p99_ms REAL NOT NULL
) STRICT)sql"},
    Table{"remarks", R"sql(CREATE TABLE remarks (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (level, position)
) STRICT)sql"},
};

Result<void> create(const Connection& connection) {
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  for (const Table& table : kTables) KVIST_TRY_VOID(connection.execute(std::string(table.sql)));
  KVIST_TRY_VOID(connection.execute(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kApplicationId, kSchemaVersion)));
  return transaction.commit();
}

Result<void> check_tables(const Connection& connection) {
  KVIST_TRY(Statement find, connection.prepare("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1"));
  for (const Table& table : kTables) {
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

}  // namespace

Result<void> prepare_schema(const Connection& connection) {
  KVIST_TRY(const std::int64_t objects, connection.query_integer("SELECT count(*) FROM sqlite_schema"));
  KVIST_TRY(const std::int64_t application, connection.query_integer("PRAGMA application_id"));
  KVIST_TRY(const std::int64_t version, connection.query_integer("PRAGMA user_version"));
  if (objects == 0 && application == 0 && version == 0) {
    return create(connection);
  }
  if (application != kApplicationId) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: a database of another application (application_id {}), not kvist results",
                            connection.path(), application));
  }
  if (version > kSchemaVersion) {
    return fail(ErrorCode::kUnsupported, fmt::format("{}: written by a newer kvist (schema {}, this one reads {})",
                                                     connection.path(), version, kSchemaVersion));
  }
  if (version != kSchemaVersion) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: schema version {} never existed", connection.path(), version));
  }
  return check_tables(connection);
}

}  // namespace kvist::results

#include "kvist/results/migration.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "kvist/results/level_id.h"
#include "kvist/results/schema.h"
#include "kvist/results/table_check.h"

namespace kvist::results {
namespace {

constexpr std::array kTablesOf1 = {
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

/// Copies the rows of all levels of one table, whose first column is the level and whose others are unchanged.
constexpr std::string_view kCopyOfLevelTable =
    "INSERT INTO {0} SELECT new_id.id, {1} FROM old_{0} AS old JOIN new_id ON new_id.old = old.level "
    "ORDER BY new_id.id{2}";

Result<void> copy_level_table(const Connection& connection, std::string_view table, std::string_view columns,
                              bool has_position) {
  return connection.execute(
      fmt::format(fmt::runtime(kCopyOfLevelTable), table, columns, has_position ? ", old.position" : ""));
}

Result<void> copy_rows(const Connection& connection) {
  KVIST_TRY_VOID(connection.execute(fmt::format(
      "CREATE TEMP TABLE new_id AS SELECT id AS old, run * {} + position AS id FROM old_levels;"
      "CREATE UNIQUE INDEX temp.new_id_by_old ON new_id (old);"
      "INSERT INTO runs SELECT id, name, kvist_version, simulated, spec_yaml FROM old_runs;"
      "INSERT INTO provenance SELECT id, started_utc, finished_utc, 0.0, 1, (SELECT json_group_object(key, value) FROM "
      "(SELECT key, value FROM old_machine WHERE run = old_runs.id ORDER BY key)) FROM old_runs;"
      "INSERT INTO levels SELECT new_id.id, run, position, mode, concurrency, 0, seed, 1, started_utc, started_ns, "
      "measure_from_ns, measure_to_ns FROM old_levels JOIN new_id ON new_id.old = old_levels.id ORDER BY new_id.id;",
      kMaxLevels)));
  KVIST_TRY_VOID(copy_level_table(connection, "snapshots",
                                  "position, at_ns, ttft_p50_ms, ttft_p95_ms, tpot_p50_ms, tpot_p95_ms, itl_p50_ms, "
                                  "itl_p95_ms, latency_p50_ms, latency_p95_ms, output_tokens_per_s, turns_per_s, "
                                  "conversation_starts_per_s, error_pct, in_flight",
                                  true));
  KVIST_TRY_VOID(copy_level_table(connection, "turns",
                                  "position, conversation, turn, outcome, error, worker, intended_ns, sent_ns, "
                                  "first_token_ns, last_token_ns, ended_ns, prompt_tokens, cached_tokens, "
                                  "completion_tokens, chunks, predicted_cached_tokens, gaps_ms",
                                  true));
  KVIST_TRY_VOID(copy_level_table(connection, "workers",
                                  "position, worker, prefix_query_tokens, prefix_hit_tokens, prompt_tokens, "
                                  "prefilled_tokens, generated_tokens, evictions, preemptions, restarts, "
                                  "acceptance_rate, kv_usage_max, running_mean, waiting_max",
                                  true));
  KVIST_TRY_VOID(copy_level_table(connection, "client_health",
                                  "loop_delay_p99_ms, loop_delay_max_ms, cpu_share, send_delay_p99_ms", false));
  KVIST_TRY_VOID(copy_level_table(connection, "remarks", "position, text", true));
  return connection.execute("DROP TABLE new_id;");
}

}  // namespace

Result<void> migrate_from_1(const Connection& connection, Result<void> (*create_tables)(const Connection& connection)) {
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY(const std::int64_t version, connection.query_integer("PRAGMA user_version"));
  if (version != 1) return {};  // another process has converted it
  KVIST_TRY_VOID(check_tables(connection, kTablesOf1));
  KVIST_TRY(const std::int64_t too_far,
            connection.query_integer(fmt::format("SELECT count(*) FROM levels WHERE position < 0 OR position >= {} "
                                                 "OR run < 1 OR run > {}",
                                                 kMaxLevels, kMaxRuns)));
  if (too_far != 0) return fail(ErrorCode::kCorrupt, connection.path() + ": levels: run or position out of range");
  for (const Table& table : kTablesOf1) {
    KVIST_TRY_VOID(connection.execute(fmt::format("ALTER TABLE {0} RENAME TO old_{0}", table.name)));
  }
  KVIST_TRY_VOID(create_tables(connection));
  KVIST_TRY_VOID(copy_rows(connection));
  // Tables that refer to others come first.
  for (auto table = kTablesOf1.rbegin(); table != kTablesOf1.rend(); ++table) {
    KVIST_TRY_VOID(connection.execute(fmt::format("DROP TABLE old_{}", table->name)));
  }
  KVIST_TRY_VOID(connection.execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion)));
  return transaction.commit();
}

}  // namespace kvist::results

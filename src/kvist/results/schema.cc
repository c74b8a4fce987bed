#include "kvist/results/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/results/migration.h"
#include "kvist/results/table_check.h"

namespace kvist::results {
namespace {

constexpr std::array kTables = {
    Table{"runs", R"sql(CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  kvist_version TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  spec_yaml TEXT NOT NULL
) STRICT)sql"},
    Table{"provenance", R"sql(CREATE TABLE provenance (
  run INTEGER PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
  started_utc TEXT NOT NULL,
  finished_utc TEXT NOT NULL,
  wall_s REAL NOT NULL,
  threads INTEGER NOT NULL,
  machine TEXT NOT NULL
) STRICT)sql"},
    Table{"run_sources", R"sql(CREATE TABLE run_sources (
  run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  place TEXT NOT NULL,
  name TEXT NOT NULL,
  started_utc TEXT NOT NULL,
  levels TEXT NOT NULL,
  PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID)sql"},
    Table{"levels", R"sql(CREATE TABLE levels (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  mode TEXT NOT NULL,
  concurrency INTEGER NOT NULL,
  repetition INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  complete INTEGER NOT NULL,
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
) STRICT, WITHOUT ROWID)sql"},
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
) STRICT, WITHOUT ROWID)sql"},
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
) STRICT, WITHOUT ROWID)sql"},
    Table{"engine_steps", R"sql(CREATE TABLE engine_steps (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  worker INTEGER NOT NULL,
  prefill INTEGER NOT NULL,
  mixed INTEGER NOT NULL,
  decode INTEGER NOT NULL,
  PRIMARY KEY (level, worker)
) STRICT, WITHOUT ROWID)sql"},
    Table{"turn_sessions", R"sql(CREATE TABLE turn_sessions (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID)sql"},
    Table{"timelines", R"sql(CREATE TABLE timelines (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  worker TEXT NOT NULL,
  kv_blocks INTEGER NOT NULL,
  max_batch_size INTEGER NOT NULL,
  PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID)sql"},
    Table{"timeline_points", R"sql(CREATE TABLE timeline_points (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  timeline INTEGER NOT NULL,
  position INTEGER NOT NULL,
  at_ns INTEGER NOT NULL,
  running INTEGER NOT NULL,
  waiting INTEGER NOT NULL,
  kv_blocks_used INTEGER NOT NULL,
  evictions INTEGER NOT NULL,
  preemptions INTEGER NOT NULL,
  prefill_backlog_tokens INTEGER NOT NULL,
  step_ms REAL NOT NULL,
  PRIMARY KEY (level, timeline, position)
) STRICT, WITHOUT ROWID)sql"},
    Table{"client_health", R"sql(CREATE TABLE client_health (
  level INTEGER PRIMARY KEY REFERENCES levels (id) ON DELETE CASCADE,
  loop_delay_p99_ms REAL NOT NULL,
  loop_delay_max_ms REAL NOT NULL,
  cpu_share REAL NOT NULL,
  send_delay_p99_ms REAL NOT NULL
) STRICT)sql"},
    Table{"client_certificates", R"sql(CREATE TABLE client_certificates (
  level INTEGER PRIMARY KEY REFERENCES levels (id) ON DELETE CASCADE,
  chunks INTEGER NOT NULL,
  stamped_chunks INTEGER NOT NULL,
  receive_delay_p50_ms REAL NOT NULL,
  receive_delay_p99_ms REAL NOT NULL,
  receive_delay_max_ms REAL NOT NULL,
  dispatch_delay_p99_ms REAL NOT NULL,
  dispatch_delay_max_ms REAL NOT NULL,
  loop_stalls INTEGER NOT NULL,
  loop_stalled_ms REAL NOT NULL,
  run_queue_share REAL,
  steal_share REAL
) STRICT)sql"},
    Table{"client_shares", R"sql(CREATE TABLE client_shares (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  figure TEXT NOT NULL,
  low_ms REAL NOT NULL,
  high_ms REAL NOT NULL,
  PRIMARY KEY (level, figure)
) STRICT, WITHOUT ROWID)sql"},
    Table{"client_pauses", R"sql(CREATE TABLE client_pauses (
  level INTEGER PRIMARY KEY REFERENCES levels (id) ON DELETE CASCADE,
  count INTEGER NOT NULL,
  share REAL NOT NULL,
  p99_ms REAL NOT NULL,
  p999_ms REAL NOT NULL,
  max_ms REAL NOT NULL,
  real_time INTEGER NOT NULL,
  cpu_share REAL NOT NULL
) STRICT)sql"},
    Table{"load_agents", R"sql(CREATE TABLE load_agents (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  agent TEXT NOT NULL,
  threads INTEGER NOT NULL,
  turns INTEGER NOT NULL,
  clock_ahead_ns INTEGER,
  clock_bound_ns INTEGER NOT NULL,
  clock_drift_ns INTEGER,
  lost TEXT,
  loop_delay_p99_ms REAL NOT NULL,
  loop_delay_max_ms REAL NOT NULL,
  cpu_share REAL NOT NULL,
  send_delay_p99_ms REAL NOT NULL,
  chunks INTEGER,
  stamped_chunks INTEGER,
  receive_delay_p50_ms REAL,
  receive_delay_p99_ms REAL,
  receive_delay_max_ms REAL,
  dispatch_delay_p99_ms REAL,
  dispatch_delay_max_ms REAL,
  loop_stalls INTEGER,
  loop_stalled_ms REAL,
  run_queue_share REAL,
  steal_share REAL,
  pauses INTEGER,
  pause_share REAL,
  pause_p99_ms REAL,
  pause_p999_ms REAL,
  pause_max_ms REAL,
  pause_real_time INTEGER,
  pause_cpu_share REAL,
  PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID)sql"},
    Table{"load_agent_shares", R"sql(CREATE TABLE load_agent_shares (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  agent INTEGER NOT NULL,
  figure TEXT NOT NULL,
  low_ms REAL NOT NULL,
  high_ms REAL NOT NULL,
  PRIMARY KEY (level, agent, figure)
) STRICT, WITHOUT ROWID)sql"},
    Table{"remarks", R"sql(CREATE TABLE remarks (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (level, position)
) STRICT, WITHOUT ROWID)sql"},
};

// Turns with their token gaps are rows of 2 to 4 kB in trees without row ids; pages of this size hold such rows without
// overflow pages: 70 MB for 66 MB of rows, where 4 kB pages take 86 MB.
constexpr int kPageBytes = 32'768;

Result<void> create_tables(const Connection& connection) {
  for (const Table& table : kTables) KVIST_TRY_VOID(connection.execute(std::string(table.sql)));
  return {};
}

Result<void> create(const Connection& connection) {
  KVIST_TRY_VOID(connection.execute(fmt::format("PRAGMA page_size = {}", kPageBytes)));
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY_VOID(create_tables(connection));
  KVIST_TRY_VOID(connection.execute(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kApplicationId, kSchemaVersion)));
  return transaction.commit();
}

/// Tables that a version added to those before, ascending.
struct Addition {
  std::int32_t version;
  std::string_view table;
};
constexpr std::array kAdditions = {Addition{3, "engine_steps"},        Addition{4, "turn_sessions"},
                                   Addition{4, "client_certificates"}, Addition{4, "client_shares"},
                                   Addition{5, "client_pauses"},       Addition{6, "run_sources"},
                                   Addition{7, "load_agents"},         Addition{7, "load_agent_shares"}};

/// Versions 2 and later differ from this one by the tables that they did not have yet.
Result<void> add_tables(const Connection& connection) {
  KVIST_TRY(Transaction transaction, Transaction::begin(connection, Transaction::Kind::kWrite));
  KVIST_TRY(const std::int64_t version, connection.query_integer("PRAGMA user_version"));
  if (version >= kSchemaVersion) return {};  // another process was faster
  const auto is_new = [version](const Table& table) {
    return std::ranges::any_of(kAdditions, [&](const Addition& addition) {
      return addition.table == table.name && addition.version > version;
    });
  };
  std::vector<Table> old;
  std::ranges::remove_copy_if(kTables, std::back_inserter(old), is_new);
  KVIST_TRY_VOID(check_tables(connection, old));
  for (const Table& table : kTables) {
    if (is_new(table)) KVIST_TRY_VOID(connection.execute(std::string(table.sql)));
  }
  KVIST_TRY_VOID(connection.execute(fmt::format("PRAGMA user_version = {}", kSchemaVersion)));
  return transaction.commit();
}

struct Version {
  bool is_empty = false;  ///< without a table, a version, an application
  std::int64_t number = 0;
};

/// Errors: another application's, a newer kvist's, no version there ever was.
Result<Version> version_of(const Connection& connection) {
  KVIST_TRY(const std::int64_t objects, connection.query_integer("SELECT count(*) FROM sqlite_schema"));
  KVIST_TRY(const std::int64_t application, connection.query_integer("PRAGMA application_id"));
  KVIST_TRY(const std::int64_t version, connection.query_integer("PRAGMA user_version"));
  if (objects == 0 && application == 0 && version == 0) return Version{.is_empty = true};
  if (application != kApplicationId) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: a database of another application (application_id {}), not kvist results",
                            connection.path(), application));
  }
  if (version > kSchemaVersion) {
    return fail(ErrorCode::kUnsupported, fmt::format("{}: written by a newer kvist (schema {}, this one reads {})",
                                                     connection.path(), version, kSchemaVersion));
  }
  if (version < 1) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: schema version {} never existed", connection.path(), version));
  }
  return Version{.number = version};
}

}  // namespace

Result<void> prepare_schema(const Connection& connection) {
  KVIST_TRY(const Version version, version_of(connection));
  if (version.is_empty) return create(connection);
  if (version.number == 1) KVIST_TRY_VOID(migrate_from_1(connection, create_tables));
  if (version.number > 1 && version.number < kSchemaVersion) KVIST_TRY_VOID(add_tables(connection));
  return check_tables(connection, kTables);
}

Result<Connection> readable(Connection connection) {
  KVIST_TRY(const Version version, version_of(connection));
  if (version.is_empty) {
    return fail(ErrorCode::kInvalidArgument,
                connection.path() + ": no results database; want one that kvist has written");
  }
  if (version.number < kSchemaVersion) {
    KVIST_TRY(Connection copy, connection.open_copy());
    KVIST_TRY_VOID(prepare_schema(copy));
    return copy;
  }
  KVIST_TRY_VOID(check_tables(connection, kTables));
  return connection;
}

}  // namespace kvist::results

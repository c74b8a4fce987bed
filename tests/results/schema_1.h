// A database as kvist wrote it with schema 1: two runs, the first with two levels out of the order of their ids.
#pragma once

namespace kvist::results {

inline constexpr const char* kDatabaseOfSchema1 = R"sql(
PRAGMA application_id = 1802924916; PRAGMA user_version = 1;
CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  started_utc TEXT NOT NULL,
  finished_utc TEXT NOT NULL,
  kvist_version TEXT NOT NULL,
  simulated INTEGER NOT NULL,
  spec_yaml TEXT NOT NULL
) STRICT;
CREATE TABLE machine (
  run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, key)
) STRICT;
CREATE TABLE levels (
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
) STRICT;
CREATE TABLE snapshots (
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
) STRICT;
CREATE TABLE turns (
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
) STRICT;
CREATE TABLE workers (
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
) STRICT;
CREATE TABLE client_health (
  level INTEGER PRIMARY KEY REFERENCES levels (id) ON DELETE CASCADE,
  loop_delay_p99_ms REAL NOT NULL,
  loop_delay_max_ms REAL NOT NULL,
  cpu_share REAL NOT NULL,
  send_delay_p99_ms REAL NOT NULL
) STRICT;
CREATE TABLE remarks (
  level INTEGER NOT NULL REFERENCES levels (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (level, position)
) STRICT;
INSERT INTO runs VALUES (1, 'old', '2026-01-01T00:00:00Z', '2026-01-01T01:00:00Z', '0.1.0', 0, 'name: old');
INSERT INTO runs VALUES (2, 'broken off', '2026-01-02T00:00:00Z', '', '0.1.0', 0, 'name: other');
INSERT INTO machine VALUES (1, 'processor', 'a "fast" one');
INSERT INTO machine VALUES (1, 'cores', '2');
INSERT INTO levels VALUES (7, 1, 1, 'kv', 40, -1, '2026-01-01T00:10:00Z', 10, 20, 30);
INSERT INTO levels VALUES (9, 1, 0, 'round_robin', 20, 5, '2026-01-01T00:00:00Z', 1, 2, 3);
INSERT INTO snapshots VALUES (7, 0, 25, 1.5, NULL, NULL, NULL, NULL, NULL, NULL, 9.5, 100.0, 4.0, 1.0, 0.0, 40);
INSERT INTO turns VALUES (7, 0, 3, 1, 'succeeded', '', 'worker-0', 11, 12, 13, 14, 15, 100, 64, 4, 3, NULL, x'0000803f00000040');
INSERT INTO turns VALUES (7, 1, 4, 0, 'failed', 'HTTP 500', '', 11, 12, 0, 0, 15, 0, 0, 0, 0, 32, x'');
INSERT INTO turns VALUES (9, 0, 1, 0, 'abandoned', '', '', 11, 12, 0, 0, 15, 0, 0, 0, 0, NULL, x'');
INSERT INTO workers VALUES (7, 0, 'worker-0', 1, 2, 3, 4, 5, 6, 7, 8, 0.5, 0.25, 3.5, 2.0);
INSERT INTO client_health VALUES (7, 0.5, 1.5, 0.25, 0.125);
INSERT INTO client_health VALUES (9, 0.0, 0.0, 0.0, 0.0);
INSERT INTO remarks VALUES (7, 0, 'first');
INSERT INTO remarks VALUES (7, 1, 'second');
)sql";

}  // namespace kvist::results

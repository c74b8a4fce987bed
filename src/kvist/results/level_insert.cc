#include <span>

#include "kvist/results/level_rows.h"
#include "kvist/results/turn_columns.h"

namespace kvist::results {
namespace {

std::int64_t nanoseconds(TimePoint at) {
  return at.time_since_epoch().count();
}

Result<std::int64_t> insert_head(const Connection& connection, std::int64_t run, const LevelRecord& level) {
  KVIST_TRY(Statement insert,
            connection.prepare("INSERT INTO levels (run, position, mode, concurrency, seed, started_utc, started_ns, "
                               "measure_from_ns, measure_to_ns) VALUES (?1, (SELECT COALESCE(MAX(position) + 1, 0) "
                               "FROM levels WHERE run = ?1), ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
  KVIST_TRY_VOID(insert.run(run, spec::to_string(level.mode), level.concurrency, level.seed, level.started_utc,
                            nanoseconds(level.started), nanoseconds(level.measure_from),
                            nanoseconds(level.measure_to)));
  return connection.last_row_id();
}

Result<void> insert_snapshots(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert,
            connection.prepare("INSERT INTO snapshots VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
                               "?14, ?15, ?16)"));
  std::int64_t position = 0;
  for (const workload::Snapshot& s : level.snapshots) {
    KVIST_TRY_VOID(insert.run(id, position++, nanoseconds(s.at), s.ttft_p50_ms, s.ttft_p95_ms, s.tpot_p50_ms,
                              s.tpot_p95_ms, s.itl_p50_ms, s.itl_p95_ms, s.latency_p50_ms, s.latency_p95_ms,
                              s.output_tokens_per_s, s.turns_per_s, s.conversation_starts_per_s, s.error_pct,
                              s.in_flight));
  }
  return {};
}

Result<void> insert_turns(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert,
            connection.prepare("INSERT INTO turns VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                               "?15, ?16, ?17, ?18)"));
  std::int64_t position = 0;
  std::vector<std::byte> gaps;
  for (const workload::TurnSample& t : level.turns) {
    encode_gaps(t.gaps_ms, gaps);
    KVIST_TRY_VOID(insert.run(id, position++, t.conversation.value(), t.turn, outcome_name(t.outcome), t.error,
                              t.worker, nanoseconds(t.intended), nanoseconds(t.sent), nanoseconds(t.first_token),
                              nanoseconds(t.last_token), nanoseconds(t.ended), t.prompt_tokens, t.cached_tokens,
                              t.completion_tokens, t.chunks, t.predicted_cached_tokens,
                              std::span<const std::byte>(gaps)));
  }
  return {};
}

Result<void> insert_workers(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert,
            connection.prepare("INSERT INTO workers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
                               "?14, ?15)"));
  std::int64_t position = 0;
  for (const WorkerLevelRecord& w : level.workers) {
    KVIST_TRY_VOID(insert.run(id, position++, w.worker, w.prefix_query_tokens, w.prefix_hit_tokens, w.prompt_tokens,
                              w.prefilled_tokens, w.generated_tokens, w.evictions, w.preemptions, w.restarts,
                              w.acceptance_rate, w.kv_usage_max, w.running_mean, w.waiting_max));
  }
  return {};
}

Result<void> insert_remarks(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert, connection.prepare("INSERT INTO remarks VALUES (?1, ?2, ?3)"));
  std::int64_t position = 0;
  for (const std::string& text : level.remarks) KVIST_TRY_VOID(insert.run(id, position++, text));
  return {};
}

}  // namespace

Result<void> insert_level(const Connection& connection, std::int64_t run, const LevelRecord& level) {
  KVIST_TRY(const std::int64_t id, insert_head(connection, run, level));
  KVIST_TRY_VOID(insert_snapshots(connection, id, level));
  KVIST_TRY_VOID(insert_turns(connection, id, level));
  KVIST_TRY_VOID(insert_workers(connection, id, level));
  KVIST_TRY(Statement health, connection.prepare("INSERT INTO client_health VALUES (?1, ?2, ?3, ?4, ?5)"));
  KVIST_TRY_VOID(health.run(id, level.client.loop_delay_p99_ms, level.client.loop_delay_max_ms, level.client.cpu_share,
                            level.client.send_delay_p99_ms));
  return insert_remarks(connection, id, level);
}

}  // namespace kvist::results

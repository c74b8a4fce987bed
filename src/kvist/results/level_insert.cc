#include <span>
#include <string_view>

#include "kvist/results/agent_rows.h"
#include "kvist/results/level_id.h"
#include "kvist/results/level_rows.h"
#include "kvist/results/turn_columns.h"

namespace kvist::results {
namespace {

std::int64_t nanoseconds(TimePoint at) {
  return at.time_since_epoch().count();
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

Result<void> insert_workers(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert,
            connection.prepare("INSERT INTO workers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, "
                               "?14, ?15)"));
  std::int64_t position = 0;
  for (const WorkerLevelRecord& w : level.workers) {
    KVIST_TRY_VOID(insert.run(id, position++, w.worker, w.prefix_query_tokens, w.prefix_hit_tokens, w.prompt_tokens,
                              w.prefilled_tokens, w.generated_tokens, w.evictions.value_or(0), w.preemptions,
                              w.restarts, w.acceptance_rate, w.kv_usage_max, w.running_mean, w.waiting_max));
  }
  return {};
}

Result<void> insert_engine_steps(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert, connection.prepare("INSERT INTO engine_steps VALUES (?1, ?2, ?3, ?4, ?5)"));
  for (std::size_t worker = 0; worker < level.workers.size(); ++worker) {
    const std::optional<StepCounts>& steps = level.workers[worker].steps;
    if (steps) KVIST_TRY_VOID(insert.run(id, worker, steps->prefill, steps->mixed, steps->decode));
  }
  return {};
}

Result<void> insert_remarks(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert, connection.prepare("INSERT INTO remarks VALUES (?1, ?2, ?3)"));
  std::int64_t position = 0;
  for (const std::string& text : level.remarks) KVIST_TRY_VOID(insert.run(id, position++, text));
  return {};
}

Result<void> insert_client(const Connection& connection, std::int64_t id, const ClientHealth& client) {
  KVIST_TRY(Statement health, connection.prepare("INSERT INTO client_health VALUES (?1, ?2, ?3, ?4, ?5)"));
  KVIST_TRY_VOID(
      health.run(id, client.loop_delay_p99_ms, client.loop_delay_max_ms, client.cpu_share, client.send_delay_p99_ms));
  if (!client.certificate) return {};
  const ClientCertificate& c = *client.certificate;
  KVIST_TRY(Statement insert, connection.prepare("INSERT INTO client_certificates VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
                                                 "?8, ?9, ?10, ?11, ?12)"));
  KVIST_TRY_VOID(insert.run(id, c.chunks, c.stamped_chunks, c.receive_delay_p50_ms, c.receive_delay_p99_ms,
                            c.receive_delay_max_ms, c.dispatch_delay_p99_ms, c.dispatch_delay_max_ms, c.loop_stalls,
                            c.loop_stalled_ms, c.run_queue_share, c.steal_share));
  if (c.pauses) {
    const ClientPauses& p = *c.pauses;
    KVIST_TRY(Statement pauses,
              connection.prepare("INSERT INTO client_pauses VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"));
    KVIST_TRY_VOID(pauses.run(id, p.count, p.share, p.p99_ms, p.p999_ms, p.max_ms, p.real_time ? 1 : 0, p.cpu_share));
  }
  KVIST_TRY(Statement share, connection.prepare("INSERT INTO client_shares VALUES (?1, ?2, ?3, ?4)"));
  for (std::size_t i = 0; i < c.shares.size(); ++i) {
    if (c.shares[i]) KVIST_TRY_VOID(share.run(id, kBoundedFigureNames[i], c.shares[i]->low_ms, c.shares[i]->high_ms));
  }
  return {};
}

Result<void> insert_timeline_points(Statement& insert, std::int64_t id, std::int64_t timeline,
                                    const std::vector<TimelinePoint>& points) {
  std::int64_t position = 0;
  for (const TimelinePoint& p : points) {
    KVIST_TRY_VOID(insert.run(id, timeline, position++, nanoseconds(p.at), p.running, p.waiting, p.kv_blocks_used,
                              p.evictions, p.preemptions, p.prefill_backlog_tokens, static_cast<double>(p.step_ms)));
  }
  return {};
}

Result<void> insert_timelines(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY(Statement insert, connection.prepare("INSERT INTO timelines VALUES (?1, ?2, ?3, ?4, ?5)"));
  KVIST_TRY(Statement point, connection.prepare("INSERT INTO timeline_points VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, "
                                                "?9, ?10, ?11)"));
  std::int64_t position = 0;
  for (const WorkerTimeline& timeline : level.timelines) {
    KVIST_TRY_VOID(insert.run(id, position, timeline.worker, timeline.kv_blocks, timeline.max_batch_size));
    KVIST_TRY_VOID(insert_timeline_points(point, id, position++, timeline.points));
  }
  return {};
}

}  // namespace

Result<std::int64_t> insert_level(const Connection& connection, std::int64_t run, std::int64_t position,
                                  const LevelRecord& head) {
  const std::int64_t id = level_id(run, position);
  KVIST_TRY(Statement insert, connection.prepare("INSERT INTO levels (id, run, position, mode, concurrency, "
                                                 "repetition, seed, complete, started_utc, started_ns, "
                                                 "measure_from_ns, measure_to_ns) "
                                                 "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, '', 0, 0, 0)"));
  KVIST_TRY_VOID(
      insert.run(id, run, position, spec::to_string(head.mode), head.concurrency, head.repetition, head.seed));
  return id;
}

Result<void> insert_turns(const Connection& connection, std::int64_t id, std::int64_t position,
                          std::span<const workload::TurnSample> turns) {
  KVIST_TRY(Statement insert,
            connection.prepare("INSERT INTO turns VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, "
                               "?15, ?16, ?17, ?18)"));
  KVIST_TRY(Statement insert_session, connection.prepare("INSERT INTO turn_sessions VALUES (?1, ?2, ?3)"));
  std::vector<std::byte> gaps;
  for (const workload::TurnSample& t : turns) {
    encode_gaps(t.gaps_ms, gaps);
    if (t.session) KVIST_TRY_VOID(insert_session.run(id, position, t.session->value()));
    KVIST_TRY_VOID(insert.run(id, position++, t.conversation.value(), t.turn, outcome_name(t.outcome), t.error,
                              t.worker, nanoseconds(t.intended), nanoseconds(t.sent), nanoseconds(t.first_token),
                              nanoseconds(t.last_token), nanoseconds(t.ended), t.prompt_tokens, t.cached_tokens,
                              t.completion_tokens, t.chunks, t.predicted_cached_tokens,
                              std::span<const std::byte>(gaps)));
  }
  return {};
}

Result<void> complete_level(const Connection& connection, std::int64_t id, const LevelRecord& level) {
  KVIST_TRY_VOID(insert_snapshots(connection, id, level));
  KVIST_TRY_VOID(insert_workers(connection, id, level));
  KVIST_TRY_VOID(insert_engine_steps(connection, id, level));
  KVIST_TRY_VOID(insert_timelines(connection, id, level));
  KVIST_TRY_VOID(insert_client(connection, id, level.client));
  KVIST_TRY_VOID(insert_agents(connection, id, level.agents));
  KVIST_TRY_VOID(insert_remarks(connection, id, level));
  KVIST_TRY(Statement update, connection.prepare("UPDATE levels SET complete = 1, started_utc = ?2, started_ns = ?3, "
                                                 "measure_from_ns = ?4, measure_to_ns = ?5 WHERE id = ?1"));
  return update.run(id, level.started_utc, nanoseconds(level.started), nanoseconds(level.measure_from),
                    nanoseconds(level.measure_to));
}

}  // namespace kvist::results

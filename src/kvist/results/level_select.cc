#include <fmt/format.h>

#include <utility>

#include "kvist/results/level_rows.h"
#include "kvist/results/turn_columns.h"

namespace kvist::results {
namespace {

// 73 years: so that the difference of any two instants of a file that someone tampered with still is a Duration.
constexpr std::int64_t kMaxNanoseconds = std::int64_t{1} << 61;

TimePoint time_point(Statement& row) {
  const std::int64_t nanoseconds = row.integer();
  if (nanoseconds < -kMaxNanoseconds || nanoseconds > kMaxNanoseconds) {
    row.column_failed("is out of range");
    return {};
  }
  return TimePoint(Duration(nanoseconds));
}

/// Runs a query with one parameter and hands each row to `read`.
template <class Read>
Result<void> for_each_row(const Connection& connection, std::string_view sql, std::int64_t parameter, Read read) {
  KVIST_TRY(Statement statement, connection.prepare(sql));
  statement.bind_all(parameter);
  for (;;) {
    KVIST_TRY(const bool row, statement.step());
    if (!row) return {};
    read(statement);
  }
}

workload::Snapshot read_snapshot(Statement& row) {
  workload::Snapshot s;
  s.at = time_point(row);
  s.ttft_p50_ms = row.optional_real();
  s.ttft_p95_ms = row.optional_real();
  s.tpot_p50_ms = row.optional_real();
  s.tpot_p95_ms = row.optional_real();
  s.itl_p50_ms = row.optional_real();
  s.itl_p95_ms = row.optional_real();
  s.latency_p50_ms = row.optional_real();
  s.latency_p95_ms = row.optional_real();
  s.output_tokens_per_s = row.real();
  s.turns_per_s = row.real();
  s.conversation_starts_per_s = row.real();
  s.error_pct = row.real();
  s.in_flight = row.integer_as<std::uint32_t>();
  return s;
}

workload::TurnSample read_turn(Statement& row) {
  workload::TurnSample t;
  t.conversation = ConversationId(row.integer_as<std::uint64_t>());
  t.turn = row.integer_as<std::uint32_t>();
  const std::optional<workload::TurnOutcome> outcome = outcome_of_name(row.text());
  if (!outcome) row.column_failed("is not an outcome");
  t.outcome = outcome.value_or(workload::TurnOutcome::kFailed);
  t.error = row.text();
  t.worker = row.text();
  t.intended = time_point(row);
  t.sent = time_point(row);
  t.first_token = time_point(row);
  t.last_token = time_point(row);
  t.ended = time_point(row);
  t.prompt_tokens = row.integer_as<std::uint32_t>();
  t.cached_tokens = row.integer_as<std::uint32_t>();
  t.completion_tokens = row.integer_as<std::uint32_t>();
  t.chunks = row.integer_as<std::uint32_t>();
  t.predicted_cached_tokens = row.optional_integer<std::uint32_t>();
  std::optional<std::vector<float>> gaps = decode_gaps(row.blob());
  if (!gaps) row.column_failed("is not a list of finite 4-byte numbers");
  t.gaps_ms = std::move(gaps).value_or(std::vector<float>{});
  return t;
}

WorkerLevelRecord read_worker(Statement& row) {
  WorkerLevelRecord w;
  w.worker = row.text();
  w.prefix_query_tokens = row.integer_as<std::uint64_t>();
  w.prefix_hit_tokens = row.integer_as<std::uint64_t>();
  w.prompt_tokens = row.integer_as<std::uint64_t>();
  w.prefilled_tokens = row.integer_as<std::uint64_t>();
  w.generated_tokens = row.integer_as<std::uint64_t>();
  w.evictions = row.integer_as<std::uint64_t>();
  w.preemptions = row.integer_as<std::uint64_t>();
  w.restarts = row.integer_as<std::uint32_t>();
  w.acceptance_rate = row.optional_real();
  w.kv_usage_max = row.real();
  w.running_mean = row.real();
  w.waiting_max = row.real();
  return w;
}

struct Head {
  std::int64_t id = 0;
  std::string mode;
  LevelRecord level;
};

Head read_head(Statement& row) {
  Head head;
  head.id = row.integer();
  head.mode = row.text();
  head.level.concurrency = row.integer_as<std::uint32_t>();
  head.level.seed = row.integer_as<std::uint64_t>();
  head.level.started_utc = row.text();
  head.level.started = time_point(row);
  head.level.measure_from = time_point(row);
  head.level.measure_to = time_point(row);
  return head;
}

Result<void> read_parts(const Connection& connection, std::int64_t id, LevelRecord& level) {
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT at_ns, ttft_p50_ms, ttft_p95_ms, tpot_p50_ms, tpot_p95_ms, itl_p50_ms, "
                              "itl_p95_ms, latency_p50_ms, latency_p95_ms, output_tokens_per_s, turns_per_s, "
                              "conversation_starts_per_s, error_pct, in_flight "
                              "FROM snapshots WHERE level = ?1 ORDER BY position",
                              id, [&](Statement& row) { level.snapshots.push_back(read_snapshot(row)); }));
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT conversation, turn, outcome, error, worker, intended_ns, sent_ns, "
                              "first_token_ns, last_token_ns, ended_ns, prompt_tokens, cached_tokens, "
                              "completion_tokens, chunks, predicted_cached_tokens, gaps_ms "
                              "FROM turns WHERE level = ?1 ORDER BY position",
                              id, [&](Statement& row) { level.turns.push_back(read_turn(row)); }));
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT worker, prefix_query_tokens, prefix_hit_tokens, prompt_tokens, "
                              "prefilled_tokens, generated_tokens, evictions, preemptions, restarts, "
                              "acceptance_rate, kv_usage_max, running_mean, waiting_max "
                              "FROM workers WHERE level = ?1 ORDER BY position",
                              id, [&](Statement& row) { level.workers.push_back(read_worker(row)); }));
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT loop_delay_p99_ms, loop_delay_max_ms, cpu_share, send_delay_p99_ms "
                              "FROM client_health WHERE level = ?1",
                              id, [&](Statement& row) {
                                level.client.loop_delay_p99_ms = row.real();
                                level.client.loop_delay_max_ms = row.real();
                                level.client.cpu_share = row.real();
                                level.client.send_delay_p99_ms = row.real();
                              }));
  return for_each_row(connection, "SELECT text FROM remarks WHERE level = ?1 ORDER BY position", id,
                      [&](Statement& row) { level.remarks.push_back(row.text()); });
}

}  // namespace

Result<std::vector<LevelRecord>> select_levels(const Connection& connection, std::int64_t run) {
  std::vector<Head> heads;
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT id, mode, concurrency, seed, started_utc, started_ns, measure_from_ns, "
                              "measure_to_ns FROM levels WHERE run = ?1 ORDER BY position",
                              run, [&](Statement& row) { heads.push_back(read_head(row)); }));
  std::vector<LevelRecord> levels;
  for (Head& head : heads) {
    Result<spec::RoutingMode> mode = spec::parse_routing_mode(head.mode);
    if (!mode) return fail(ErrorCode::kCorrupt, fmt::format("{}: {}", connection.path(), mode.error().message));
    head.level.mode = *mode;
    KVIST_TRY_VOID(read_parts(connection, head.id, head.level));
    levels.push_back(std::move(head.level));
  }
  return levels;
}

}  // namespace kvist::results

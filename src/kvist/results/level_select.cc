#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "kvist/results/agent_rows.h"
#include "kvist/results/level_rows.h"
#include "kvist/results/turn_columns.h"

namespace kvist::results {
namespace {

// 73 years, so that the difference of any two instants, even in a manipulated file, is within the range of Duration.
constexpr std::int64_t kMaxNanoseconds = std::int64_t{1} << 61;

TimePoint time_point(Statement& row) {
  const std::int64_t nanoseconds = row.integer();
  if (nanoseconds < -kMaxNanoseconds || nanoseconds > kMaxNanoseconds) {
    row.column_failed("is out of range");
    return {};
  }
  return TimePoint(Duration(nanoseconds));
}

// Pages of a manipulated file may lead to the same rows again and again, so that it never ends. Of tables that may be
// long the keys are held to ascend, the others to this many rows.
constexpr std::size_t kMostRows = 1'000'000;
constexpr std::size_t kAnyRows = std::numeric_limits<std::size_t>::max();

/// Runs a query with one parameter and calls `read` with each row.
template <class Read>
Result<void> for_each_row(const Connection& connection, std::string_view sql, std::int64_t parameter, Read read,
                          std::size_t most = kMostRows) {
  KVIST_TRY(Statement statement, connection.prepare(sql));
  statement.bind_all(parameter);
  for (std::size_t rows = 0;; ++rows) {
    KVIST_TRY(const bool row, statement.step());
    if (!row) return {};
    if (rows == most) return fail(ErrorCode::kCorrupt, fmt::format("{}: more than {} rows", connection.path(), most));
    read(statement);
  }
}

/// Reads positions, the first column of each row.
class Ascending {
 public:
  void read(Statement& row) {
    const std::int64_t position = row.integer();
    if (last_ && position <= *last_) row.column_failed("does not ascend");
    last_ = position;
  }
  /// Before the rows of another list.
  void begin() { last_.reset(); }

 private:
  std::optional<std::int64_t> last_;
};

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
  if (const auto session = row.optional_integer<std::uint64_t>()) t.session = ConversationId(*session);
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

TimelinePoint read_timeline_point(Statement& row) {
  TimelinePoint p;
  p.at = time_point(row);
  p.running = row.integer_as<std::uint32_t>();
  p.waiting = row.integer_as<std::uint32_t>();
  p.kv_blocks_used = row.integer_as<std::uint32_t>();
  p.evictions = row.integer_as<std::uint64_t>();
  p.preemptions = row.integer_as<std::uint64_t>();
  p.prefill_backlog_tokens = row.integer_as<std::uint64_t>();
  p.step_ms = static_cast<float>(row.real());
  return p;
}

Result<void> read_timelines(const Connection& connection, std::int64_t id, LevelRecord& level) {
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT worker, kv_blocks, max_batch_size FROM timelines WHERE level = ?1 "
                              "ORDER BY position",
                              id, [&](Statement& row) {
                                WorkerTimeline timeline;
                                timeline.worker = row.text();
                                timeline.kv_blocks = row.integer_as<std::uint32_t>();
                                timeline.max_batch_size = row.integer_as<std::uint32_t>();
                                level.timelines.push_back(std::move(timeline));
                              }));
  Ascending positions;
  std::uint32_t last = 0;
  return for_each_row(
      connection,
      "SELECT timeline, position, at_ns, running, waiting, kv_blocks_used, evictions, preemptions, "
      "prefill_backlog_tokens, step_ms FROM timeline_points WHERE level = ?1 "
      "ORDER BY timeline, position",
      id,
      [&](Statement& row) {
        const auto timeline = row.integer_as<std::uint32_t>();
        if (timeline >= level.timelines.size()) return row.column_failed("has no timeline");
        if (timeline < last) return row.column_failed("does not ascend");
        if (timeline > last) positions.begin();
        last = timeline;
        positions.read(row);
        level.timelines[timeline].points.push_back(read_timeline_point(row));
      },
      kAnyRows);
}

spec::Arm read_mode(Statement& row) {
  const Result<spec::Arm> arm = spec::parse_arm(row.text());
  if (!arm) row.column_failed(fmt::format("is not an arm: {}", arm.error().message));
  return arm.value_or(spec::RoutingMode::kRoundRobin);
}

Result<void> read_turns(const Connection& connection, std::int64_t id, bool gaps, LevelRecord& level) {
  Ascending positions;
  // Selects an empty blob in place of the gaps, so that SQLite does not read their pages.
  return for_each_row(
      connection,
      fmt::format("SELECT position, conversation, turn, outcome, error, worker, intended_ns, sent_ns, "
                  "first_token_ns, last_token_ns, ended_ns, prompt_tokens, cached_tokens, "
                  "completion_tokens, chunks, predicted_cached_tokens, {}, session "
                  "FROM turns LEFT JOIN turn_sessions USING (level, position) "
                  "WHERE turns.level = ?1 ORDER BY turns.position",
                  gaps ? "gaps_ms" : "x'' AS gaps_ms"),
      id,
      [&](Statement& row) {
        positions.read(row);
        level.turns.push_back(read_turn(row));
      },
      kAnyRows);
}

ClientCertificate read_certificate(Statement& row) {
  ClientCertificate c;
  c.chunks = row.integer_as<std::uint64_t>();
  c.stamped_chunks = row.integer_as<std::uint64_t>();
  c.receive_delay_p50_ms = row.real();
  c.receive_delay_p99_ms = row.real();
  c.receive_delay_max_ms = row.real();
  c.dispatch_delay_p99_ms = row.real();
  c.dispatch_delay_max_ms = row.real();
  c.loop_stalls = row.integer_as<std::uint64_t>();
  c.loop_stalled_ms = row.real();
  c.run_queue_share = row.optional_real();
  c.steal_share = row.optional_real();
  return c;
}

ClientPauses read_pauses(Statement& row) {
  ClientPauses p;
  p.count = row.integer_as<std::uint64_t>();
  p.share = row.real();
  p.p99_ms = row.real();
  p.p999_ms = row.real();
  p.max_ms = row.real();
  p.real_time = row.integer() != 0;
  p.cpu_share = row.real();
  return p;
}

void read_share(Statement& row, ClientCertificate& certificate) {
  const std::string name = row.text();
  const ClientShare share{.low_ms = row.real(), .high_ms = row.real()};
  const auto* const known = std::ranges::find(kBoundedFigureNames, name);
  if (known == kBoundedFigureNames.end()) return row.column_failed("is not the name of a figure");
  certificate.shares[static_cast<std::size_t>(known - kBoundedFigureNames.begin())] = share;
}

Result<void> read_client(const Connection& connection, std::int64_t id, ClientHealth& client) {
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT loop_delay_p99_ms, loop_delay_max_ms, cpu_share, send_delay_p99_ms "
                              "FROM client_health WHERE level = ?1",
                              id, [&](Statement& row) {
                                client.loop_delay_p99_ms = row.real();
                                client.loop_delay_max_ms = row.real();
                                client.cpu_share = row.real();
                                client.send_delay_p99_ms = row.real();
                              }));
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT chunks, stamped_chunks, receive_delay_p50_ms, receive_delay_p99_ms, "
                              "receive_delay_max_ms, dispatch_delay_p99_ms, dispatch_delay_max_ms, loop_stalls, "
                              "loop_stalled_ms, run_queue_share, steal_share "
                              "FROM client_certificates WHERE level = ?1",
                              id, [&](Statement& row) { client.certificate = read_certificate(row); }));
  if (!client.certificate) return {};
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT count, share, p99_ms, p999_ms, max_ms, real_time, cpu_share "
                              "FROM client_pauses WHERE level = ?1",
                              id, [&](Statement& row) { client.certificate->pauses = read_pauses(row); }));
  return for_each_row(connection, "SELECT figure, low_ms, high_ms FROM client_shares WHERE level = ?1 ORDER BY figure",
                      id, [&](Statement& row) { read_share(row, *client.certificate); });
}

Result<void> read_parts(const Connection& connection, std::int64_t id, LevelRecord& level) {
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT at_ns, ttft_p50_ms, ttft_p95_ms, tpot_p50_ms, tpot_p95_ms, itl_p50_ms, "
                              "itl_p95_ms, latency_p50_ms, latency_p95_ms, output_tokens_per_s, turns_per_s, "
                              "conversation_starts_per_s, error_pct, in_flight "
                              "FROM snapshots WHERE level = ?1 ORDER BY position",
                              id, [&](Statement& row) { level.snapshots.push_back(read_snapshot(row)); }));
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT worker, prefix_query_tokens, prefix_hit_tokens, prompt_tokens, "
                              "prefilled_tokens, generated_tokens, evictions, preemptions, restarts, "
                              "acceptance_rate, kv_usage_max, running_mean, waiting_max "
                              "FROM workers WHERE level = ?1 ORDER BY position",
                              id, [&](Statement& row) { level.workers.push_back(read_worker(row)); }));
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT worker, prefill, mixed, decode FROM engine_steps WHERE level = ?1 "
                              "ORDER BY worker",
                              id, [&](Statement& row) {
                                const auto worker = row.integer_as<std::uint32_t>();
                                if (worker >= level.workers.size()) return row.column_failed("has no worker");
                                StepCounts& steps = level.workers[worker].steps.emplace();
                                steps.prefill = row.integer_as<std::uint64_t>();
                                steps.mixed = row.integer_as<std::uint64_t>();
                                steps.decode = row.integer_as<std::uint64_t>();
                              }));
  // The column cannot say that evictions are not known. An engine that counts none of its steps counts none of them.
  for (WorkerLevelRecord& worker : level.workers) {
    if (!worker.steps && worker.evictions == 0U) worker.evictions.reset();
  }
  KVIST_TRY_VOID(read_client(connection, id, level.client));
  KVIST_TRY(level.agents, select_agents(connection, id));
  return for_each_row(connection, "SELECT text FROM remarks WHERE level = ?1 ORDER BY position", id,
                      [&](Statement& row) { level.remarks.push_back(row.text()); });
}

}  // namespace

Result<std::vector<LevelHead>> select_heads(const Connection& connection, std::int64_t run) {
  std::vector<LevelHead> heads;
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT id, position, mode, concurrency, repetition, seed, started_utc, started_ns "
                              "FROM levels WHERE run = ?1 AND complete = 1 ORDER BY position",
                              run, [&](Statement& row) {
                                LevelHead head;
                                head.id = row.integer();
                                head.position = row.integer();
                                head.mode = read_mode(row);
                                head.concurrency = row.integer_as<std::uint32_t>();
                                head.repetition = row.integer_as<std::uint32_t>();
                                head.seed = row.integer_as<std::uint64_t>();
                                head.started_utc = row.text();
                                head.started = time_point(row);
                                heads.push_back(head);
                              }));
  return heads;
}

Result<LevelRecord> select_level(const Connection& connection, std::int64_t id, const LevelParts& parts) {
  LevelRecord level;
  bool there = false;
  KVIST_TRY_VOID(for_each_row(connection,
                              "SELECT mode, concurrency, repetition, seed, started_utc, started_ns, measure_from_ns, "
                              "measure_to_ns FROM levels WHERE id = ?1 AND complete = 1",
                              id, [&](Statement& row) {
                                there = true;
                                level.mode = read_mode(row);
                                level.concurrency = row.integer_as<std::uint32_t>();
                                level.repetition = row.integer_as<std::uint32_t>();
                                level.seed = row.integer_as<std::uint64_t>();
                                level.started_utc = row.text();
                                level.started = time_point(row);
                                level.measure_from = time_point(row);
                                level.measure_to = time_point(row);
                              }));
  if (!there) return fail(ErrorCode::kNotFound, fmt::format("{}: no complete level {}", connection.path(), id));
  KVIST_TRY_VOID(read_turns(connection, id, parts.gaps, level));
  if (parts.timelines) KVIST_TRY_VOID(read_timelines(connection, id, level));
  KVIST_TRY_VOID(read_parts(connection, id, level));
  return level;
}

}  // namespace kvist::results

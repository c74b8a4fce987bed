// A database of one test and records with every field set. Shared by the tests of results.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

#include "kvist/results/store.h"

namespace kvist::results {

/// A temporary folder of this test.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) / (std::string("kvist-store-") + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name = "results.db") const { return (folder_ / name).string(); }

  /// Runs SQL on a file with SQLite itself, as other programs might.
  static void tamper(const std::string& file, const std::string& sql) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
    sqlite3_close(raw);
  }

  std::filesystem::path folder_;
};

inline TimePoint at(std::int64_t ns) {
  return TimePoint(Duration(ns));
}

inline workload::Snapshot full_snapshot() {
  workload::Snapshot s;
  s.at = at(15'000'000'001);
  s.ttft_p50_ms = 31.25;
  s.ttft_p95_ms = 74.5;
  s.tpot_p50_ms = 2.5;
  s.tpot_p95_ms = 2.75;
  s.itl_p50_ms = 2.4;
  s.itl_p95_ms = 2.9;
  s.latency_p50_ms = 2'100.1;
  s.latency_p95_ms = 2'900.7;
  s.output_tokens_per_s = 12'345.678;
  s.turns_per_s = 14.5;
  s.conversation_starts_per_s = 3.625;
  s.error_pct = 0.25;
  s.in_flight = 24;
  return s;
}

inline workload::TurnSample full_turn() {
  workload::TurnSample t;
  t.conversation = ConversationId(std::numeric_limits<std::uint64_t>::max() - 1);
  t.turn = 3;
  t.session = ConversationId(17);
  t.outcome = workload::TurnOutcome::kFailed;
  t.error = std::string("HTTP 500: \"n\xC3\xB6 '; DROP TABLE turns;--\" and a NUL: ") + '\0' + "|";
  t.worker = "worker-2";
  t.intended = at(1);
  t.sent = at(2);
  t.first_token = at(30'000'000'003);
  t.last_token = at(30'000'000'004);
  t.ended = at(30'000'000'005);
  t.prompt_tokens = std::numeric_limits<std::uint32_t>::max();
  t.cached_tokens = 3'776;
  t.completion_tokens = 840;
  t.chunks = 839;
  t.predicted_cached_tokens = 0;
  t.gaps_ms = {0.0F, 2.5F, 1.0F / 3, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max()};
  return t;
}

inline WorkerLevelRecord full_worker() {
  WorkerLevelRecord w;
  w.worker = "worker-1";
  w.prefix_query_tokens = std::numeric_limits<std::uint64_t>::max();
  w.prefix_hit_tokens = 2;
  w.prompt_tokens = 3;
  w.prefilled_tokens = 4;
  w.generated_tokens = 5;
  w.evictions = 6;
  w.preemptions = 7;
  w.restarts = 8;
  w.steps = {.prefill = 9, .mixed = std::numeric_limits<std::uint64_t>::max(), .decode = 10};
  w.acceptance_rate = 0.62;
  w.kv_usage_max = 0.875;
  w.running_mean = 7.3;
  w.waiting_max = 2;
  return w;
}

inline WorkerTimeline full_timeline() {
  TimelinePoint p;
  p.at = at(1'000'000'007);
  p.running = 8;
  p.waiting = 9;
  p.kv_blocks_used = 5'000;
  p.evictions = std::numeric_limits<std::uint64_t>::max();
  p.preemptions = 11;
  p.prefill_backlog_tokens = 12'345;
  p.step_ms = 1.0F / 3;
  return {.worker = "worker-1", .kv_blocks = 6'000, .max_batch_size = 64, .points = {p, TimelinePoint{}}};
}

inline ClientCertificate full_certificate() {
  ClientCertificate c{.chunks = 1'000,
                      .stamped_chunks = 990,
                      .receive_delay_p50_ms = 0.03,
                      .receive_delay_p99_ms = 0.5,
                      .receive_delay_max_ms = 7,
                      .dispatch_delay_p99_ms = 0.25,
                      .dispatch_delay_max_ms = 2,
                      .loop_stalls = 3,
                      .loop_stalled_ms = 45.5,
                      .run_queue_share = 0.125,
                      .steal_share = std::nullopt,
                      .pauses = ClientPauses{.count = 12,
                                             .share = 0.0625,
                                             .p99_ms = 4.5,
                                             .p999_ms = 9,
                                             .max_ms = 22,
                                             .real_time = true,
                                             .cpu_share = 0.01}};
  for (std::size_t i = 0; i + 1 < c.shares.size(); ++i) {
    c.shares[i] = ClientShare{.low_ms = -0.5 * static_cast<double>(i), .high_ms = 0.25};
  }
  return c;
}

inline LoadAgent full_agent() {
  return {.name = "10.0.0.5:9400",
          .threads = 3,
          .turns = std::numeric_limits<std::uint64_t>::max(),
          .clock_ahead = Duration(-987'654'321'012),
          .clock_bound = Duration(18'500),
          .clock_drift = Duration(-2'500),
          .lost = "it's gone",
          .client = {.loop_delay_p99_ms = 0.25,
                     .loop_delay_max_ms = 1.5,
                     .cpu_share = 0.125,
                     .send_delay_p99_ms = 0.0625,
                     .certificate = full_certificate()}};
}

inline LevelRecord full_level() {
  LevelRecord level;
  level.mode = spec::RoutingMode::kKv;
  level.concurrency = 24;
  level.repetition = 7;
  level.seed = 0xfedcba9876543210ULL;
  level.started_utc = "2026-03-01T10:00:00Z";
  level.started = at(10);
  level.measure_from = at(5'000'000'010);
  level.measure_to = at(35'000'000'010);
  level.snapshots = {full_snapshot(), workload::Snapshot{}};
  level.turns = {full_turn(), workload::TurnSample{}};
  level.turns[1].outcome = workload::TurnOutcome::kAbandoned;
  level.workers = {full_worker(), WorkerLevelRecord{}};
  level.timelines = {full_timeline(), WorkerTimeline{}, full_timeline()};
  level.timelines[2].points.pop_back();
  level.client = {.loop_delay_p99_ms = 0.5,
                  .loop_delay_max_ms = 3.5,
                  .cpu_share = 0.75,
                  .send_delay_p99_ms = 0.125,
                  .certificate = full_certificate()};
  level.agents = {full_agent(), LoadAgent{.name = "b:1"}};
  level.agents[1].client.certificate = full_certificate();
  level.agents[1].client.certificate->pauses.reset();
  level.remarks = {"worker-1 restarted", "", "2 requests abandoned while draining"};
  return level;
}

inline RunRecord head_of_run() {
  RunRecord run;
  run.name = "demo";
  run.started_utc = "2026-03-01T10:00:00Z";
  run.kvist_version = "0.1.0";
  run.simulated = true;
  run.spec_yaml = "name: demo\nmodes: [round_robin, kv]\n";
  run.machine = {{"cores", "2"}, {"kernel", "6.1 \"quoted\""}, {"processor", ""}};
  run.threads = 3;
  return run;
}

inline void expect_equal(const workload::Snapshot& a, const workload::Snapshot& b) {
  EXPECT_EQ(a.at, b.at);
  EXPECT_EQ(a.ttft_p50_ms, b.ttft_p50_ms);
  EXPECT_EQ(a.ttft_p95_ms, b.ttft_p95_ms);
  EXPECT_EQ(a.tpot_p50_ms, b.tpot_p50_ms);
  EXPECT_EQ(a.tpot_p95_ms, b.tpot_p95_ms);
  EXPECT_EQ(a.itl_p50_ms, b.itl_p50_ms);
  EXPECT_EQ(a.itl_p95_ms, b.itl_p95_ms);
  EXPECT_EQ(a.latency_p50_ms, b.latency_p50_ms);
  EXPECT_EQ(a.latency_p95_ms, b.latency_p95_ms);
  EXPECT_EQ(a.output_tokens_per_s, b.output_tokens_per_s);
  EXPECT_EQ(a.turns_per_s, b.turns_per_s);
  EXPECT_EQ(a.conversation_starts_per_s, b.conversation_starts_per_s);
  EXPECT_EQ(a.error_pct, b.error_pct);
  EXPECT_EQ(a.in_flight, b.in_flight);
}

inline void expect_equal(const workload::TurnSample& a, const workload::TurnSample& b) {
  EXPECT_EQ(a.conversation, b.conversation);
  EXPECT_EQ(a.turn, b.turn);
  EXPECT_EQ(a.outcome, b.outcome);
  EXPECT_EQ(a.error, b.error);
  EXPECT_EQ(a.worker, b.worker);
  EXPECT_EQ(a.intended, b.intended);
  EXPECT_EQ(a.sent, b.sent);
  EXPECT_EQ(a.first_token, b.first_token);
  EXPECT_EQ(a.last_token, b.last_token);
  EXPECT_EQ(a.ended, b.ended);
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.cached_tokens, b.cached_tokens);
  EXPECT_EQ(a.completion_tokens, b.completion_tokens);
  EXPECT_EQ(a.chunks, b.chunks);
  EXPECT_EQ(a.predicted_cached_tokens, b.predicted_cached_tokens);
  EXPECT_EQ(a.session, b.session);
  EXPECT_EQ(a.gaps_ms, b.gaps_ms);
}

inline void expect_equal(const WorkerLevelRecord& a, const WorkerLevelRecord& b) {
  EXPECT_EQ(a.worker, b.worker);
  EXPECT_EQ(a.prefix_query_tokens, b.prefix_query_tokens);
  EXPECT_EQ(a.prefix_hit_tokens, b.prefix_hit_tokens);
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.prefilled_tokens, b.prefilled_tokens);
  EXPECT_EQ(a.generated_tokens, b.generated_tokens);
  EXPECT_EQ(a.evictions, b.evictions);
  EXPECT_EQ(a.preemptions, b.preemptions);
  EXPECT_EQ(a.restarts, b.restarts);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.acceptance_rate, b.acceptance_rate);
  EXPECT_EQ(a.kv_usage_max, b.kv_usage_max);
  EXPECT_EQ(a.running_mean, b.running_mean);
  EXPECT_EQ(a.waiting_max, b.waiting_max);
}

inline void expect_equal(const WorkerTimeline& a, const WorkerTimeline& b) {
  EXPECT_EQ(a.worker, b.worker);
  EXPECT_EQ(a.kv_blocks, b.kv_blocks);
  EXPECT_EQ(a.max_batch_size, b.max_batch_size);
  ASSERT_EQ(a.points.size(), b.points.size());
  for (std::size_t i = 0; i < a.points.size(); ++i) {
    EXPECT_EQ(a.points[i].at, b.points[i].at);
    EXPECT_EQ(a.points[i].running, b.points[i].running);
    EXPECT_EQ(a.points[i].waiting, b.points[i].waiting);
    EXPECT_EQ(a.points[i].kv_blocks_used, b.points[i].kv_blocks_used);
    EXPECT_EQ(a.points[i].evictions, b.points[i].evictions);
    EXPECT_EQ(a.points[i].preemptions, b.points[i].preemptions);
    EXPECT_EQ(a.points[i].prefill_backlog_tokens, b.points[i].prefill_backlog_tokens);
    EXPECT_EQ(a.points[i].step_ms, b.points[i].step_ms);
  }
}

inline void expect_equal(const ClientHealth& a, const ClientHealth& b) {
  EXPECT_EQ(a.loop_delay_p99_ms, b.loop_delay_p99_ms);
  EXPECT_EQ(a.loop_delay_max_ms, b.loop_delay_max_ms);
  EXPECT_EQ(a.cpu_share, b.cpu_share);
  EXPECT_EQ(a.send_delay_p99_ms, b.send_delay_p99_ms);
  EXPECT_EQ(a.certificate, b.certificate);
}

inline void expect_equal(const LoadAgent& a, const LoadAgent& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.turns, b.turns);
  EXPECT_EQ(a.clock_ahead, b.clock_ahead);
  EXPECT_EQ(a.clock_bound, b.clock_bound);
  EXPECT_EQ(a.clock_drift, b.clock_drift);
  EXPECT_EQ(a.lost, b.lost);
  expect_equal(a.client, b.client);
}

inline void expect_equal(const LevelRecord& a, const LevelRecord& b) {
  EXPECT_EQ(a.mode, b.mode);
  EXPECT_EQ(a.concurrency, b.concurrency);
  EXPECT_EQ(a.repetition, b.repetition);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.started_utc, b.started_utc);
  EXPECT_EQ(a.started, b.started);
  EXPECT_EQ(a.measure_from, b.measure_from);
  EXPECT_EQ(a.measure_to, b.measure_to);
  ASSERT_EQ(a.snapshots.size(), b.snapshots.size());
  for (std::size_t i = 0; i < a.snapshots.size(); ++i) expect_equal(a.snapshots[i], b.snapshots[i]);
  ASSERT_EQ(a.turns.size(), b.turns.size());
  for (std::size_t i = 0; i < a.turns.size(); ++i) expect_equal(a.turns[i], b.turns[i]);
  ASSERT_EQ(a.workers.size(), b.workers.size());
  for (std::size_t i = 0; i < a.workers.size(); ++i) expect_equal(a.workers[i], b.workers[i]);
  ASSERT_EQ(a.timelines.size(), b.timelines.size());
  for (std::size_t i = 0; i < a.timelines.size(); ++i) expect_equal(a.timelines[i], b.timelines[i]);
  expect_equal(a.client, b.client);
  ASSERT_EQ(a.agents.size(), b.agents.size());
  for (std::size_t i = 0; i < a.agents.size(); ++i) expect_equal(a.agents[i], b.agents[i]);
  EXPECT_EQ(a.remarks, b.remarks);
}

/// Creates a database with one full run at `file`.
inline void write_run(const std::string& file) {
  auto store = Store::open(file);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto run = (*store)->begin_run(head_of_run());
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const auto added = (*store)->add_level(*run, full_level());
  ASSERT_TRUE(added.has_value()) << added.error().message;
}

}  // namespace kvist::results

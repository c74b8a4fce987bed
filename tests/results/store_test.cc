#include "kvist/results/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "kvist/base/random.h"

namespace kvist::results {
namespace {

using ::testing::HasSubstr;

/// A folder of this test alone, gone with it.
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

  /// Runs SQL on a file with SQLite itself, as a stranger with other intentions would.
  static void tamper(const std::string& file, const std::string& sql) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
    char* message = nullptr;
    EXPECT_EQ(sqlite3_exec(raw, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
    sqlite3_close(raw);
  }

  std::filesystem::path folder_;
};

TimePoint at(std::int64_t ns) {
  return TimePoint(Duration(ns));
}

workload::Snapshot full_snapshot() {
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

workload::TurnSample full_turn() {
  workload::TurnSample t;
  t.conversation = ConversationId(std::numeric_limits<std::uint64_t>::max() - 1);
  t.turn = 3;
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

WorkerLevelRecord full_worker() {
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
  w.acceptance_rate = 0.62;
  w.kv_usage_max = 0.875;
  w.running_mean = 7.3;
  w.waiting_max = 2;
  return w;
}

LevelRecord full_level() {
  LevelRecord level;
  level.mode = spec::RoutingMode::kKv;
  level.concurrency = 24;
  level.seed = 0xfedcba9876543210ULL;
  level.started_utc = "2026-03-01T10:00:00Z";
  level.started = at(10);
  level.measure_from = at(5'000'000'010);
  level.measure_to = at(35'000'000'010);
  level.snapshots = {full_snapshot(), workload::Snapshot{}};
  level.turns = {full_turn(), workload::TurnSample{}};
  level.turns[1].outcome = workload::TurnOutcome::kAbandoned;
  level.workers = {full_worker(), WorkerLevelRecord{}};
  level.client = {.loop_delay_p99_ms = 0.5, .loop_delay_max_ms = 3.5, .cpu_share = 0.75, .send_delay_p99_ms = 0.125};
  level.remarks = {"worker-1 restarted", "", "2 requests abandoned while draining"};
  return level;
}

RunRecord head_of_run() {
  RunRecord run;
  run.name = "demo";
  run.started_utc = "2026-03-01T10:00:00Z";
  run.kvist_version = "0.1.0";
  run.simulated = true;
  run.spec_yaml = "name: demo\nmodes: [round_robin, kv]\n";
  run.machine = {{"cores", "2"}, {"kernel", "6.1"}, {"processor", ""}};
  return run;
}

void expect_equal(const workload::Snapshot& a, const workload::Snapshot& b) {
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

void expect_equal(const workload::TurnSample& a, const workload::TurnSample& b) {
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
  EXPECT_EQ(a.gaps_ms, b.gaps_ms);
}

void expect_equal(const WorkerLevelRecord& a, const WorkerLevelRecord& b) {
  EXPECT_EQ(a.worker, b.worker);
  EXPECT_EQ(a.prefix_query_tokens, b.prefix_query_tokens);
  EXPECT_EQ(a.prefix_hit_tokens, b.prefix_hit_tokens);
  EXPECT_EQ(a.prompt_tokens, b.prompt_tokens);
  EXPECT_EQ(a.prefilled_tokens, b.prefilled_tokens);
  EXPECT_EQ(a.generated_tokens, b.generated_tokens);
  EXPECT_EQ(a.evictions, b.evictions);
  EXPECT_EQ(a.preemptions, b.preemptions);
  EXPECT_EQ(a.restarts, b.restarts);
  EXPECT_EQ(a.acceptance_rate, b.acceptance_rate);
  EXPECT_EQ(a.kv_usage_max, b.kv_usage_max);
  EXPECT_EQ(a.running_mean, b.running_mean);
  EXPECT_EQ(a.waiting_max, b.waiting_max);
}

void expect_equal(const LevelRecord& a, const LevelRecord& b) {
  EXPECT_EQ(a.mode, b.mode);
  EXPECT_EQ(a.concurrency, b.concurrency);
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
  EXPECT_EQ(a.client.loop_delay_p99_ms, b.client.loop_delay_p99_ms);
  EXPECT_EQ(a.client.loop_delay_max_ms, b.client.loop_delay_max_ms);
  EXPECT_EQ(a.client.cpu_share, b.client.cpu_share);
  EXPECT_EQ(a.client.send_delay_p99_ms, b.client.send_delay_p99_ms);
  EXPECT_EQ(a.remarks, b.remarks);
}

/// Creates a database with one full run at `file`.
void write_run(const std::string& file) {
  auto store = Store::open(file);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto run = (*store)->begin_run(head_of_run());
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const auto added = (*store)->add_level(*run, full_level());
  ASSERT_TRUE(added.has_value()) << added.error().message;
}

TEST_F(StoreTest, GivesBackEveryFieldOfARun) {
  RunRecord run = head_of_run();
  run.levels = {full_level(), LevelRecord{}, full_level()};
  run.levels[2].mode = spec::RoutingMode::kDynamo;
  run.finished_utc = "2026-03-01T11:00:00Z";
  std::int64_t id = 0;
  {
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    id = (*store)->begin_run(head_of_run()).value();
    for (const LevelRecord& level : run.levels) ASSERT_TRUE((*store)->add_level(id, level).has_value());
    ASSERT_TRUE((*store)->finish_run(id, run.finished_utc).has_value());
  }
  auto store = Store::open(path());
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const auto loaded = (*store)->load_run(id);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->name, run.name);
  EXPECT_EQ(loaded->started_utc, run.started_utc);
  EXPECT_EQ(loaded->finished_utc, run.finished_utc);
  EXPECT_EQ(loaded->kvist_version, run.kvist_version);
  EXPECT_EQ(loaded->simulated, run.simulated);
  EXPECT_EQ(loaded->spec_yaml, run.spec_yaml);
  EXPECT_EQ(loaded->machine, run.machine);
  ASSERT_EQ(loaded->levels.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) expect_equal(loaded->levels[i], run.levels[i]);
}

TEST_F(StoreTest, KeepsRunsApartAndInOrder) {
  auto store = Store::open(path());
  ASSERT_TRUE(store.has_value());
  RunRecord other = head_of_run();
  other.name = "other";
  const std::int64_t first = (*store)->begin_run(head_of_run()).value();
  const std::int64_t second = (*store)->begin_run(other).value();
  ASSERT_TRUE((*store)->add_level(second, full_level()).has_value());
  EXPECT_THAT((*store)->runs().value(), ::testing::ElementsAre(first, second));
  EXPECT_TRUE((*store)->load_run(first)->levels.empty());
  EXPECT_EQ((*store)->load_run(second)->levels.size(), 1U);
  EXPECT_EQ((*store)->load_run(second)->name, "other");
}

TEST_F(StoreTest, AnUnknownRunIsNotFound) {
  auto store = Store::open(path());
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ((*store)->load_run(7).error().code, ErrorCode::kNotFound);
  EXPECT_EQ((*store)->add_level(7, full_level()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ((*store)->finish_run(7, "now").error().code, ErrorCode::kNotFound);
  EXPECT_THAT((*store)->load_run(7).error().message, HasSubstr(path()));
}

TEST_F(StoreTest, ALevelThatCannotBeWrittenLeavesNothingBehind) {
  auto store = Store::open(path());
  ASSERT_TRUE(store.has_value());
  const std::int64_t run = (*store)->begin_run(head_of_run()).value();
  LevelRecord bad = full_level();
  bad.workers[1].kv_usage_max = std::nan("");  // SQLite turns NaN into NULL, which the column refuses
  const auto added = (*store)->add_level(run, bad);
  ASSERT_FALSE(added.has_value());
  EXPECT_THAT(added.error().message, HasSubstr("kv_usage_max"));
  EXPECT_TRUE((*store)->load_run(run)->levels.empty());
  EXPECT_TRUE((*store)->add_level(run, full_level()).has_value());  // the store goes on working
  EXPECT_EQ((*store)->load_run(run)->levels.size(), 1U);
}

TEST_F(StoreTest, RefusesFilesThatAreNotOurs) {
  std::ofstream(path("text.db")) << std::string(4096, 'x');
  const auto text = Store::open(path("text.db"));
  ASSERT_FALSE(text.has_value());
  EXPECT_EQ(text.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(text.error().message, HasSubstr(path("text.db")));

  tamper(path("other.db"), "CREATE TABLE runs (id INTEGER PRIMARY KEY)");
  EXPECT_EQ(Store::open(path("other.db")).error().code, ErrorCode::kInvalidArgument);

  EXPECT_EQ(Store::open(path("no/such/folder.db")).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, RefusesANewerSchema) {
  write_run(path());
  tamper(path(), "PRAGMA user_version = 2");
  const auto store = Store::open(path());
  ASSERT_FALSE(store.has_value());
  EXPECT_EQ(store.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(store.error().message, HasSubstr("newer"));
}

TEST_F(StoreTest, RefusesTablesThatAreNotAsCreated) {
  write_run(path("view.db"));
  tamper(path("view.db"),
         "DROP TABLE remarks; CREATE VIEW remarks AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
         "SELECT 1 AS level, x AS position, 'on and on' AS text FROM n");
  EXPECT_EQ(Store::open(path("view.db")).error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(Store::open(path("view.db")).error().message, HasSubstr("remarks is missing"));

  write_run(path("loose.db"));
  tamper(path("loose.db"), "DROP TABLE client_health; CREATE TABLE client_health (level, a, b, c, d)");
  EXPECT_THAT(Store::open(path("loose.db")).error().message, HasSubstr("client_health is not as kvist creates it"));

  write_run(path("trigger.db"));
  tamper(path("trigger.db"), "CREATE TRIGGER t AFTER INSERT ON turns BEGIN DELETE FROM turns; END");
  EXPECT_THAT(Store::open(path("trigger.db")).error().message, HasSubstr("triggers"));
}

TEST_F(StoreTest, ValuesOutOfRangeAreErrorsThatNameTheColumn) {
  struct Case {
    const char* sql;
    const char* expected;
  };
  const Case cases[] = {
      {"UPDATE turns SET prompt_tokens = -1", "prompt_tokens is out of range"},
      {"UPDATE turns SET chunks = 4294967296", "chunks is out of range"},
      {"UPDATE turns SET outcome = 'perhaps'", "outcome is not an outcome"},
      {"UPDATE turns SET gaps_ms = x'0000'", "gaps_ms is not a list"},
      {"UPDATE turns SET gaps_ms = x'0000c07f'", "gaps_ms is not a list"},  // a NaN
      {"UPDATE turns SET sent_ns = -9223372036854775808", "sent_ns is out of range"},
      {"UPDATE workers SET restarts = 1 << 40", "restarts is out of range"},
      {"UPDATE levels SET mode = 'astrology'", "astrology"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.sql);
    std::filesystem::remove(path());
    write_run(path());
    tamper(path(), c.sql);
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    const auto run = (*store)->load_run(1);
    ASSERT_FALSE(run.has_value());
    EXPECT_EQ(run.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(run.error().message, HasSubstr(c.expected));
    EXPECT_THAT(run.error().message, HasSubstr(path()));
  }
}

/// Bytes of a file are flipped or cut off at random: whatever comes out, it is a record or an error, never a crash.
TEST_F(StoreTest, DamagedFilesGiveErrorsOrRecordsButNoCrash) {
  write_run(path());
  std::string good(std::filesystem::file_size(path()), '\0');
  std::ifstream(path(), std::ios::binary).read(good.data(), static_cast<std::streamsize>(good.size()));

  const std::uint64_t seed = 20260301;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  RandomStream random(seed);
  const auto below = [&random](std::size_t bound) {
    return static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(bound) - 1));
  };
  int errors = 0;
  for (int round = 0; round < 200; ++round) {
    std::string bytes = good;
    if (round % 4 == 0) bytes.resize(below(bytes.size()));
    const std::size_t flips = 1 + below(64);
    for (std::size_t i = 0; i < flips && !bytes.empty(); ++i) {
      bytes[below(bytes.size())] = static_cast<char>(below(256));
    }
    const std::string file = path("damaged.db");
    std::filesystem::remove(file + "-journal");
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
    auto store = Store::open(file);
    if (!store) {
      ++errors;
      EXPECT_THAT(store.error().message, HasSubstr(file));
    } else if (const auto run = (*store)->load_run(1); !run) {
      ++errors;
      EXPECT_THAT(run.error().message, HasSubstr(file));
    }
  }
  EXPECT_GT(errors, 0);
}

}  // namespace
}  // namespace kvist::results

#include "kvist/results/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "kvist/base/random.h"
#include "results/store_fixture.h"

namespace kvist::results::store_test {
namespace {

using ::testing::HasSubstr;

TEST_F(StoreTest, EveryFieldOfARunRoundTrips) {
  RunRecord run = head_of_run();
  run.levels = {full_level(), LevelRecord{}, full_level()};
  run.levels[2].mode = spec::RoutingMode::kDynamo;
  run.sources = {{.place = "out/b", .name = "second", .started_utc = "2026-03-02T10:00:00Z", .levels = "kv at 8"},
                 {.place = "out/a", .name = "first", .started_utc = "2026-03-01T10:00:00Z", .levels = "kv at 4"}};
  run.finished_utc = "2026-03-01T11:00:00Z";
  std::int64_t id = 0;
  {
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    id = (*store)->begin_run(run).value();
    for (const LevelRecord& level : run.levels) ASSERT_TRUE((*store)->add_level(id, level).has_value());
    ASSERT_TRUE((*store)->finish_run(id, run.finished_utc, 12.5).has_value());
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
  EXPECT_EQ(loaded->threads, run.threads);
  EXPECT_EQ(loaded->sources, run.sources);
  EXPECT_EQ(loaded->wall_s, 12.5);
  ASSERT_EQ(loaded->levels.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) expect_equal(loaded->levels[i], run.levels[i]);
}

TEST_F(StoreTest, NoEvictionsAreKnownOnlyOfAnEngineThatCounts) {
  LevelRecord level = full_level();
  level.workers[0].evictions = 0;  // it counts its steps, as kvist's worker does
  level.workers[1].evictions.reset();
  auto store = Store::open(path());
  ASSERT_TRUE(store.has_value());
  const std::int64_t id = (*store)->begin_run(head_of_run()).value();
  ASSERT_TRUE((*store)->add_level(id, level).has_value());
  const std::vector<WorkerLevelRecord> workers = (*store)->load_run(id)->levels[0].workers;
  EXPECT_EQ(workers[0].evictions, 0U);
  EXPECT_FALSE(workers[1].evictions.has_value());
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
  EXPECT_TRUE((*store)->add_level(run, full_level()).has_value());  // the store remains usable
  EXPECT_EQ((*store)->load_run(run)->levels.size(), 1U);
}

TEST_F(StoreTest, RefusesForeignFiles) {
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
  tamper(path(), "PRAGMA user_version = 8");
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
      {"UPDATE levels SET mode = 'astro logy'", "astro logy"},
      {"UPDATE levels SET repetition = -1", "repetition is out of range"},
      {"UPDATE timeline_points SET running = -1", "running is out of range"},
      {"UPDATE timeline_points SET timeline = 9 WHERE timeline = 0", "timeline has no timeline"},
      {"UPDATE provenance SET threads = -1", "threads is out of range"},
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

/// Random bytes of a file are flipped or cut off: the result is a record or an error, never a crash.
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
  for (int round = 0; round < 100; ++round) {
    std::string bytes = good;
    if (round % 4 == 0) bytes.resize(below(bytes.size()));
    const std::size_t flips = 1 + below(2'000);  // most of a page is empty
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
}  // namespace kvist::results::store_test

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "kvist/base/random.h"
#include "results/store_fixture.h"

namespace kvist::results::store_streaming_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// All rows of all tables in SQLite's order, as text like that of `.dump`.
std::string dump(const std::string& file, bool with_provenance = true) {
  sqlite3* raw = nullptr;
  EXPECT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
  std::string out;
  std::vector<std::string> tables;
  const auto collect = [](void* to, int, char** values, char**) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(values[0]);
    return 0;
  };
  sqlite3_exec(raw, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid", collect, &tables, nullptr);
  for (const std::string& table : tables) {
    if (table == "provenance" && !with_provenance) continue;
    out += table + "\n";
    sqlite3_stmt* rows = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(raw, ("SELECT * FROM " + table).c_str(), -1, &rows, nullptr), SQLITE_OK);
    while (sqlite3_step(rows) == SQLITE_ROW) {
      for (int column = 0; column < sqlite3_column_count(rows); ++column) {
        const auto* bytes = static_cast<const char*>(sqlite3_column_blob(rows, column));
        out.append(bytes, bytes == nullptr ? 0 : static_cast<std::size_t>(sqlite3_column_bytes(rows, column)));
        out += '|';
      }
      out += '\n';
    }
    sqlite3_finalize(rows);
  }
  sqlite3_close(raw);
  return out;
}

/// Level `i` of a run; all differ.
LevelRecord level_number(std::size_t i) {
  LevelRecord level = full_level();
  level.concurrency = static_cast<std::uint32_t>(20 * (i + 1));
  level.repetition = static_cast<std::uint32_t>(i % 3);
  level.seed = 1'000 + i;
  level.turns.clear();
  for (std::size_t t = 0; t < 40 + i; ++t) {
    workload::TurnSample turn = full_turn();
    turn.conversation = ConversationId(1'000 * i + t);
    turn.gaps_ms.assign(t, static_cast<float>(i));
    level.turns.push_back(turn);
  }
  return level;
}

void write_in_order(const std::string& file, const RunRecord& head, std::size_t levels) {
  auto store = Store::open(file).value();
  const std::int64_t run = store->begin_run(head).value();
  for (std::size_t i = 0; i < levels; ++i) ASSERT_TRUE(store->add_level(run, level_number(i)).has_value());
  ASSERT_TRUE(store->finish_run(run, "then", 1).has_value());
}

/// The same run as written by several threads: levels in any order, batches interleaved.
void write_interleaved(const std::string& file, const RunRecord& head, std::size_t levels, RandomStream& random) {
  auto store = Store::open(file, Durability::kProcess).value();
  const std::int64_t run = store->begin_run(head).value();
  struct Writing {
    std::size_t number = 0;
    LevelRecord record;
    std::int64_t id = 0;
    std::size_t written = 0;
  };
  std::vector<Writing> open;
  for (std::size_t i = 0; i < levels; ++i) open.push_back({i, level_number(i), 0, 0});
  while (!open.empty()) {
    const auto pick = static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(open.size()) - 1));
    Writing& w = open[pick];
    if (w.id == 0) {
      w.id = store->begin_level(run, static_cast<std::int64_t>(w.number), w.record).value();
    } else if (w.written < w.record.turns.size()) {
      const std::size_t batch =
          std::min<std::size_t>(w.record.turns.size() - w.written, static_cast<std::size_t>(random.uniform_int(0, 15)));
      ASSERT_TRUE(store->add_turns(w.id, std::span(w.record.turns).subspan(w.written, batch)).has_value());
      w.written += batch;
    } else {
      w.record.turns.clear();
      ASSERT_TRUE(store->finish_level(w.id, w.record).has_value());
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  ASSERT_TRUE(store->finish_run(run, "later", 2).has_value());
}

TEST_F(StoreTest, TheOrderOfWritingLeavesNoTrace) {
  constexpr std::size_t kLevels = 6;
  write_in_order(path("ordered.db"), head_of_run(), kLevels);
  const std::string expected = dump(path("ordered.db"), false);
  EXPECT_THAT(expected, HasSubstr("1000005|1|5|kv|120|"));
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    RandomStream random(seed);
    RunRecord head = head_of_run();
    head.started_utc = "another day";
    head.threads = static_cast<std::uint32_t>(seed);
    head.machine = {{"host", std::to_string(seed)}};
    const std::string file = path("interleaved.db");
    std::filesystem::remove(file);
    write_interleaved(file, head, kLevels, random);
    EXPECT_EQ(dump(file, false), expected);
    EXPECT_NE(dump(file), dump(path("ordered.db")));  // provenance is the one row that tells them apart
  }
}

TEST_F(StoreTest, AnUnfinishedLevelIsNotSeen) {
  auto store = Store::open(path()).value();
  const std::int64_t run = store->begin_run(head_of_run()).value();
  const LevelRecord level = full_level();
  ASSERT_TRUE(store->add_level(run, level).has_value());
  const std::int64_t half = store->begin_level(run, 1, level).value();
  ASSERT_TRUE(store->add_turns(half, level.turns).has_value());
  EXPECT_EQ(store->load_run(run)->levels.size(), 1U);
  EXPECT_EQ(store->levels(run)->size(), 1U);
  EXPECT_EQ(store->load_level(half).error().code, ErrorCode::kNotFound);

  // The process dies; the next one finds the finished level, and may begin the other anew.
  store.reset();
  store = Store::open(path()).value();
  EXPECT_EQ(store->load_run(run)->levels.size(), 1U);
  EXPECT_EQ(store->add_turns(half, level.turns).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(store->finish_level(half, level).error().code, ErrorCode::kNotFound);
  const std::int64_t again = store->begin_level(run, 1, level).value();
  EXPECT_EQ(again, half);
  ASSERT_TRUE(store->finish_level(again, level).has_value());
  EXPECT_TRUE(store->load_level(again)->turns.empty());
}

TEST_F(StoreTest, FinishingARunDiscardsUnfinishedLevels) {
  auto store = Store::open(path()).value();
  const std::int64_t run = store->begin_run(head_of_run()).value();
  const std::int64_t half = store->begin_level(run, 3, full_level()).value();
  ASSERT_TRUE(store->add_turns(half, full_level().turns).has_value());
  ASSERT_TRUE(store->finish_run(run, "now").has_value());
  EXPECT_EQ(store->finish_level(half, full_level()).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(dump(path()), HasSubstr("turns\nworkers\n"));  // nothing between the two
}

TEST_F(StoreTest, PositionsAreTakenOnceAndBounded) {
  auto store = Store::open(path()).value();
  const std::int64_t run = store->begin_run(head_of_run()).value();
  ASSERT_TRUE(store->add_level(run, full_level()).has_value());
  const auto taken = store->begin_level(run, 0, full_level());
  ASSERT_FALSE(taken.has_value());
  EXPECT_EQ(taken.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(taken.error().message, HasSubstr("position 0 already"));
  EXPECT_EQ(store->begin_level(run, -1, full_level()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->begin_level(run, 1'000'000, full_level()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(store->begin_level(run + 1, 0, full_level()).error().code, ErrorCode::kNotFound);
}

TEST_F(StoreTest, ARunIsReadLevelByLevel) {
  auto store = Store::open(path()).value();
  const std::int64_t run = store->begin_run(head_of_run()).value();
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(store->add_level(run, level_number(i)).has_value());
  const auto head = store->load_head(run);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->name, "demo");
  EXPECT_TRUE(head->levels.empty());
  const auto levels = store->levels(run);
  ASSERT_EQ(levels->size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*levels)[i].position, static_cast<std::int64_t>(i));
    EXPECT_EQ((*levels)[i].concurrency, 20 * (i + 1));
    EXPECT_EQ((*levels)[i].repetition, i);
    EXPECT_EQ((*levels)[i].seed, 1'000 + i);
    expect_equal(*store->load_level((*levels)[i].id), level_number(i));
  }
  LevelRecord without = level_number(2);
  for (workload::TurnSample& turn : without.turns) turn.gaps_ms.clear();
  without.timelines.clear();
  expect_equal(*store->load_level((*levels)[2].id, {.gaps = false, .timelines = false}), without);
}

}  // namespace
}  // namespace kvist::results::store_streaming_test

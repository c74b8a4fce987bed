// Stores that are only read: whatever state the file is in, neither it nor its folder is changed.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <string>

#include "results/schema_1.h"
#include "results/store_fixture.h"

namespace kvist::results::store_read_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class StoreReadTest : public StoreTest {
 protected:
  void TearDown() override {
    fs::permissions(folder_, fs::perms::owner_all);
    StoreTest::TearDown();
  }

  /// The names and contents of all files. Root may write where nobody may, so the modes alone would prove nothing.
  [[nodiscard]] std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all[entry.path().filename()] = bytes_of(entry.path());
    return all;
  }

  /// Opens the file for reading where nothing may be written, and closes it again.
  void read(const std::function<void(Store&)>& look) {
    const auto before = files();
    for (const auto& entry : fs::directory_iterator(folder_)) fs::permissions(entry.path(), fs::perms::owner_read);
    fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
    {
      auto store = Store::open_to_read(path());
      ASSERT_TRUE(store.has_value()) << store.error().message;
      look(**store);
      EXPECT_FALSE((*store)->begin_run(head_of_run()).has_value() && files() != before);
      EXPECT_EQ(files(), before) << "while it is open";
    }
    EXPECT_EQ(files(), before) << "after it";
    fs::permissions(folder_, fs::perms::owner_all);
  }
};

TEST_F(StoreReadTest, ARunIsReadAndCannotBeWritten) {
  write_run(path());
  read([](Store& store) {
    expect_equal(store.load_run(1).value().levels.at(0), full_level());
    EXPECT_FALSE(store.add_level(1, full_level()).has_value());
    EXPECT_FALSE(store.remove_level(1, 0).has_value());
  });
}

TEST_F(StoreReadTest, AFileOfAnyOldSchemaIsConvertedInACopy) {
  tamper(path(), kDatabaseOfSchema1);
  read([](Store& store) { EXPECT_EQ(store.load_run(1).value().levels.size(), 2U); });
  fs::remove(path());
  write_run(path());
  tamper(path(), "DROP TABLE load_agent_shares; DROP TABLE load_agents; PRAGMA user_version = 6");
  read([](Store& store) { EXPECT_EQ(store.load_run(1).value().levels.at(0).turns.size(), 2U); });
}

TEST_F(StoreReadTest, AFileWithAWriteAheadLogGetsNoneBesideIt) {
  write_run(path());
  tamper(path(), "PRAGMA journal_mode = WAL");
  read([](Store& store) { EXPECT_EQ(store.load_run(1).value().levels.size(), 1U); });
}

TEST_F(StoreReadTest, WhatAWriterThatWasCutOffHadBegunIsNotSeen) {
  write_run(path("writing.db"));
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open(path("writing.db").c_str(), &raw), SQLITE_OK);
  // Pages go to the file before the end of the transaction, as they do of a long one.
  ASSERT_EQ(sqlite3_exec(raw,
                         "PRAGMA cache_size = 1; BEGIN; UPDATE runs SET name = hex(zeroblob(200000)); "
                         "UPDATE remarks SET text = hex(zeroblob(200000)); DELETE FROM turns;",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  fs::copy_file(path("writing.db"), path());
  fs::copy_file(path("writing.db-journal"), path() + "-journal");
  sqlite3_close(raw);
  ASSERT_NE(bytes_of(path()), bytes_of(path("writing.db"))) << "the copy has changes that were never committed";
  read([](Store& store) {
    EXPECT_EQ(store.load_run(1).value().name, "demo");
    expect_equal(store.load_run(1).value().levels.at(0), full_level());
  });
}

TEST_F(StoreReadTest, AStoreBesideAWriterSeesWhatIsFinished) {
  auto writer = Store::open(path()).value();
  const std::int64_t run = writer->begin_run(head_of_run()).value();
  auto reader = Store::open_to_read(path()).value();
  EXPECT_TRUE(reader->levels(run)->empty());
  ASSERT_TRUE(writer->add_level(run, full_level()).has_value());
  EXPECT_EQ(reader->levels(run)->size(), 1U);
}

TEST_F(StoreReadTest, NothingIsMadeOfWhatIsNoDatabase) {
  EXPECT_EQ(Store::open_to_read(path()).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Store::open_to_read(path("no/such/file.db")).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(Store::open_to_read(folder_.string()).error().message, HasSubstr("no results database"));
  EXPECT_TRUE(files().empty());
  std::ofstream(path()).flush();
  EXPECT_THAT(Store::open_to_read(path()).error().message, HasSubstr("no results database"));
  std::ofstream(path()) << std::string(4'096, 'x');
  EXPECT_EQ(Store::open_to_read(path()).error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(files().size(), 1U);
}

/// Pages of a file may lead to one leaf many times, level by level: a small file of more rows than can ever be read.
TEST_F(StoreReadTest, RowsThatComeAgainEndTheReading) {
  for (const std::string table : {"turns", "timeline_points"}) {
    SCOPED_TRACE(table);
    fs::remove(path());
    write_run(path());
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &raw), SQLITE_OK);
    sqlite3_stmt* root = nullptr;
    const std::string sql = "SELECT rootpage FROM sqlite_schema WHERE name = '" + table + "'";
    ASSERT_EQ(sqlite3_prepare_v2(raw, sql.c_str(), -1, &root, nullptr), SQLITE_OK);
    ASSERT_EQ(sqlite3_step(root), SQLITE_ROW);
    const auto page = static_cast<std::size_t>(sqlite3_column_int64(root, 0)) - 1;
    sqlite3_finalize(root);
    sqlite3_close(raw);
    std::string bytes = bytes_of(path());
    constexpr std::size_t kPage = 32'768;
    constexpr std::size_t kCells = 8;  // of a leaf, two bytes each; the first one is put in place of the second
    ASSERT_EQ(bytes.at(page * kPage), '\x0A') << "a leaf";
    std::copy_n(&bytes.at(page * kPage + kCells), 2, &bytes.at(page * kPage + kCells + 2));
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
    const auto level = Store::open_to_read(path()).value()->load_level(1'000'000);
    ASSERT_FALSE(level.has_value());
    EXPECT_EQ(level.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(level.error().message, HasSubstr("position does not ascend"));
  }
}

TEST_F(StoreReadTest, AnyNameIsAName) {
  for (const char* const name : {"a?mode=memory", "file:x", "50% #1 \xC3\xA9.db", "two words"}) {
    SCOPED_TRACE(name);
    write_run(path("plain.db"));
    fs::rename(path("plain.db"), path(name));
    const auto store = Store::open_to_read(path(name));
    ASSERT_TRUE(store.has_value()) << store.error().message;
    EXPECT_EQ((*store)->runs()->size(), 1U);
  }
}

}  // namespace
}  // namespace kvist::results::store_read_test

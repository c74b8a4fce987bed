#include "kvist/analysis/stored_run.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/scratch_folder.h"

namespace kvist::analysis::stored_run_test {
namespace {

namespace fs = std::filesystem;

/// A file of that age, which nobody looks into.
std::string database(const fs::path& folder, std::chrono::minutes age) {
  fs::create_directories(folder);
  const fs::path path = folder / "results.sqlite";
  std::ofstream(path) << "some bytes";
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
  return path.string();
}

TEST(FindDatabase, AFolderStandsForWhatWasWrittenLastInItWhateverItsName) {
  const ScratchFolder scratch;
  const std::string sweep = database(scratch.path() / "demo-20261130-100000", std::chrono::minutes(30));
  const std::string oldest = database(scratch.path() / "zeta-20261129-100000", std::chrono::minutes(60));
  const std::string newest = database(scratch.path() / "demo-cpu-20261130-110000", std::chrono::minutes(5));
  fs::create_directories(scratch.path() / "zz-without-results");
  EXPECT_EQ(find_database(scratch.path()).value(), newest);
  EXPECT_EQ(find_databases(scratch.path()).value(), (std::vector{oldest, sweep, newest}));
  EXPECT_EQ(find_databases(scratch.path() / "zeta-20261129-100000").value(), std::vector{oldest});
  EXPECT_EQ(find_databases(sweep).value(), std::vector{sweep});
}

TEST(FindDatabase, OfOneTimeTheLastByName) {
  const ScratchFolder scratch;
  const std::string first = database(scratch.path() / "a-1", std::chrono::minutes(5));
  const std::string second = database(scratch.path() / "a-2", std::chrono::minutes(5));
  fs::last_write_time(first, fs::last_write_time(second));
  EXPECT_EQ(find_database(scratch.path()).value(), second);
}

TEST(FindDatabase, WhereThereIsNone) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "empty");
  EXPECT_EQ(find_database(scratch.path()).error().message, scratch.path().string() + ": no results.sqlite in it");
  EXPECT_EQ(find_database("/nowhere/at/all").error().message, "/nowhere/at/all: no such file or folder");
}

}  // namespace
}  // namespace kvist::analysis::stored_run_test

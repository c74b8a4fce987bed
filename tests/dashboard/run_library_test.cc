// Stored runs: what the page is told of them is what the commands say, and fits into a message.
#include "kvist/dashboard/run_library.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "analysis/sample_run.h"
#include "kvist/analysis/run_changes.h"
#include "kvist/base/json.h"
#include "kvist/dashboard/run_json.h"

namespace kvist::dashboard::run_library_test {
namespace {

using analysis::sample_level;
using spec::RoutingMode;

spec::SweepSpec sweep() {
  spec::SweepSpec sample = analysis::sample_sweep();
  for (std::size_t i = 0; i < sample.deployment.workers.size(); ++i) {
    sample.deployment.workers[i] = {};
    sample.deployment.workers[i].name = "worker-" + std::to_string(i);
  }
  return sample;
}

class RunLibraryTest : public testing::Test {
 protected:
  RunLibraryTest() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / (std::string("kvist-runs-") + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~RunLibraryTest() override { std::filesystem::remove_all(folder_); }

  /// A database below `folder` with these runs.
  static std::string database_in(const std::filesystem::path& folder, const std::vector<results::RunRecord>& runs) {
    std::filesystem::create_directories(folder);
    std::string path = (folder / "results.sqlite").string();
    auto store = results::Store::open(path).value();
    for (results::RunRecord run : runs) {
      run.spec_yaml = spec::to_yaml(sweep());
      const std::int64_t id = store->begin_run(run).value();
      for (const results::LevelRecord& level : run.levels) EXPECT_TRUE(store->add_level(id, level));
    }
    return path;
  }

  /// A library of one database with these runs.
  RunLibrary library_of(const std::vector<results::RunRecord>& runs) {
    const std::string path = database_in(folder_, runs);
    RunLibrary library;
    const auto added = library.add(path);
    EXPECT_TRUE(added) << added.error().message;
    return library;
  }

  std::filesystem::path folder_;
};

results::RunRecord run_of(std::vector<results::LevelRecord> levels, bool simulated = false) {
  results::RunRecord run = analysis::sample_run();
  run.simulated = simulated;
  run.levels = std::move(levels);
  return run;
}

/// 6 % of the prompts' tokens cached: as many as any template may put in front of all prompts.
results::LevelRecord earlier() {
  results::LevelRecord level = sample_level(RoutingMode::kKv, 40, 200);
  level.workers.clear();
  for (workload::TurnSample& turn : level.turns) turn.cached_tokens = 60;
  return level;
}

/// 40 ms slower, and 5 % cached.
results::LevelRecord slower() {
  results::LevelRecord level = earlier();
  for (workload::TurnSample& turn : level.turns) {
    turn.first_token += std::chrono::milliseconds(40);
    turn.cached_tokens = 50;
  }
  return level;
}

TEST_F(RunLibraryTest, ChangesAreThoseOfTheCommandThatComparesRuns) {
  const results::LevelRecord before = earlier();
  RunLibrary library = library_of({run_of({before}), run_of({slower()})});
  const std::string text = library.compare_json("0-1", "0-2").value();
  JsonDocument document;
  const JsonObject root = document.parse_object(text).value();
  const JsonArray levels = root.require_array("levels").value();
  ASSERT_EQ(levels.size(), 1U) << text;
  const JsonObject figures = (*levels.begin()).as_object()->require_object("figures").value();
  const analysis::RunAnalysis old(run_of({before}), sweep());
  const analysis::RunAnalysis now(run_of({slower()}), sweep());
  const auto change =
      analysis::change_of(&old.levels()[0], &now.levels()[0], analysis::headline(analysis::Headline::kTtftP50));
  const JsonObject p50 = figures.require_object("ttft_p50_ms").value();
  ASSERT_TRUE(change.change.value);
  EXPECT_NEAR(p50.require_double("change", -1e6, 1e6).value(), *change.change.value, 1e-6);
  EXPECT_EQ(*p50.require_string("verdict"), "open") << "ten turns of five conversations have no interval";
  const JsonObject hits = figures.require_object("hit_rate_pct").value();
  EXPECT_NEAR(hits.require_double("change", -100, 100).value(), -1, 1e-6) << "points, not percent of the percentage";
}

TEST_F(RunLibraryTest, AFolderOfFoldersGivesAllOfTheirRunsTheLastFirst) {
  namespace fs = std::filesystem;
  results::RunRecord sweep_run = run_of({earlier()});
  results::RunRecord simulated = run_of({slower()}, true);
  sweep_run.name = "measured";
  simulated.name = "simulated";
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(database_in(folder_ / "demo-cpu", {simulated}), now);
  fs::last_write_time(database_in(folder_ / "demo-2026", {sweep_run}), now - std::chrono::minutes(10));
  fs::create_directories(folder_ / "other");
  std::ofstream(folder_ / "other" / "results.sqlite") << "no database";
  RunLibrary library;
  const auto added = library.add(folder_.string());
  ASSERT_TRUE(added) << added.error().message;
  const std::string text = library.runs_json().value();
  const std::size_t first = text.find(R"("file":"demo-cpu/results.sqlite")");
  const std::size_t second = text.find(R"("file":"demo-2026/results.sqlite")");
  EXPECT_TRUE(first != std::string::npos && second != std::string::npos && first < second) << text;
  EXPECT_TRUE(text.contains("other/results.sqlite")) << "what cannot be read is named: " << text;

  fs::remove_all(folder_ / "demo-cpu");
  fs::remove_all(folder_ / "demo-2026");
  RunLibrary empty;
  EXPECT_FALSE(empty.add(folder_.string()));
}

TEST_F(RunLibraryTest, RunsThatTheCommandRefusesAreNotCompared) {
  RunLibrary library = library_of({run_of({earlier()}), run_of({slower()}, true)});
  const auto compared = library.compare_json("0-1", "0-2");
  ASSERT_FALSE(compared);
  EXPECT_TRUE(compared.error().message.contains("simulated")) << compared.error().message;
}

TEST_F(RunLibraryTest, ALevelWithTooManyErrorsHasNoChange) {
  results::LevelRecord failed = slower();
  for (workload::TurnSample& turn : failed.turns) turn.outcome = workload::TurnOutcome::kFailed;
  failed.turns.back().outcome = workload::TurnOutcome::kSucceeded;
  RunLibrary library = library_of({run_of({earlier()}), run_of({failed})});
  const std::string text = library.compare_json("0-1", "0-2").value();
  EXPECT_TRUE(text.contains(R"("change":null,"low":null,"high":null,"verdict":"open")")) << text;
  EXPECT_FALSE(text.contains("worse")) << text;
}

TEST_F(RunLibraryTest, RepetitionsHaveTheirNumbersWhereSomeAreMissing) {
  results::LevelRecord third = earlier();
  third.repetition = 2;
  RunLibrary library = library_of({run_of({earlier(), third})});
  const std::string text = library.run_json("0-1").value();
  EXPECT_TRUE(text.contains(R"("level_ids":[1000000,1000001],"level_repetitions":[0,2])")) << text;
}

TEST_F(RunLibraryTest, ALevelThatWasMeasuredAgainHasItsNewFigures) {
  RunLibrary library = library_of({run_of({earlier()})});
  const std::string before = library.run_json("0-1").value();
  results::LevelRecord again = slower();
  again.started += std::chrono::hours(1);
  const auto store = results::Store::open((folder_ / "results.sqlite").string()).value();
  ASSERT_TRUE(store->remove_level(1, 0));
  ASSERT_TRUE(store->add_level(1, again, 0));
  const std::string after = library.run_json("0-1").value();
  EXPECT_TRUE(after.contains(R"("level_ids":[1000000])")) << "it has the id of the one before it: " << after;
  EXPECT_NE(after, before);
  RunLibrary anew;
  ASSERT_TRUE(anew.add((folder_ / "results.sqlite").string()));
  EXPECT_EQ(after, anew.run_json("0-1").value());
}

TEST_F(RunLibraryTest, ADamagedRunHidesNoOther) {
  RunLibrary library = library_of({run_of({earlier()}), run_of({slower()})});
  sqlite3* raw = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ / "results.sqlite").c_str(), &raw), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(raw, "UPDATE provenance SET threads = -1 WHERE run = 1", nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(raw);
  const std::string text = library.runs_json().value();
  EXPECT_TRUE(text.contains(R"("run":"0-2")")) << text;
  EXPECT_FALSE(text.contains(R"("run":"0-1")")) << text;
  EXPECT_TRUE(text.contains(R"("problems":["run 1: )") && text.contains("threads is out of range")) << text;
}

TEST_F(RunLibraryTest, NothingIsChangedByLooking) {
  RunLibrary library = library_of({run_of({sample_level(RoutingMode::kKv, 40, 200)})});
  const auto before = std::filesystem::last_write_time(folder_ / "results.sqlite");
  EXPECT_TRUE(library.runs_json());
  EXPECT_TRUE(library.run_json("0-1"));
  EXPECT_TRUE(library.level_json("0-1", 1'000'000));
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "results.sqlite"), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_FALSE(RunLibrary().add((folder_ / "none").string()));
  EXPECT_FALSE(RunLibrary().add(std::string(5'000, 'a'))) << "no file has so long a name";
}

}  // namespace
}  // namespace kvist::dashboard::run_library_test

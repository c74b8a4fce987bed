#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "kvist/base/version.h"
#include "kvist/cli/main.h"
#include "kvist/results/store.h"
#include "kvist/spec/files.h"

namespace kvist::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// What a command left: exit status and both streams.
struct Ran {
  int status = 0;
  std::string out;
  std::string err;
};

Ran kvist(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "kvist");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Ran ran;
  ran.status = run(static_cast<int>(arguments.size()), argv.data());
  ran.out = testing::internal::GetCapturedStdout();
  ran.err = testing::internal::GetCapturedStderr();
  return ran;
}

class CliTest : public testing::Test {
 protected:
  CliTest() {
    std::string path = testing::TempDir() + "/kvist_cli_XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }

  std::string folder_;
};

TEST_F(CliTest, VersionIsThatOfTheProject) {
  const Ran ran = kvist({"--version"});
  EXPECT_EQ(ran.status, 0);
  EXPECT_EQ(ran.out, "kvist " + std::string(kVersion) + "\n");
  std::ostringstream cmake;
  cmake << std::ifstream(std::string(KVIST_SOURCE_DIR) + "/CMakeLists.txt").rdbuf();
  EXPECT_THAT(cmake.str(), HasSubstr("project(kvist VERSION " + std::string(kVersion) + " "));
}

TEST_F(CliTest, HelpNamesTheCommands) {
  const Ran ran = kvist({"--help"});
  EXPECT_EQ(ran.status, 0);
  for (const char* command : {"worker", "gateway", "loadgen", "up", "sweep", "report"}) {
    EXPECT_THAT(ran.out, HasSubstr(command));
  }
}

TEST_F(CliTest, WrongUsageIsTwo) {
  EXPECT_EQ(kvist({}).status, 2);
  EXPECT_EQ(kvist({"fly"}).status, 2);
  EXPECT_EQ(kvist({"sweep"}).status, 2);
  EXPECT_EQ(kvist({"sweep", "-f", "x", "--unknown"}).status, 2);
  EXPECT_EQ(kvist({"loadgen", "--target", "http://h:1", "--model", "m", "--duration", "1 s"}).status, 2)
      << "a duration needs a concurrency";
  EXPECT_FALSE(kvist({"sweep"}).err.empty());
}

TEST_F(CliTest, AFailureIsOneLineOnStandardError) {
  for (const char* command : {"worker", "gateway", "up", "sweep"}) {
    const Ran ran = kvist({command, "-f", folder_ + "/missing.yaml"});
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "kvist " + std::string(command) + ": " + folder_ + "/missing.yaml: No such file or directory\n");
    EXPECT_THAT(ran.out, IsEmpty());
  }
}

TEST_F(CliTest, ABadFileIsRefusedWithItsLine) {
  const auto path = write("bad.yaml", "deployment:\n  workers:\n    count: 2\n    block_sice: 16\n");
  EXPECT_THAT(kvist({"up", "-f", path}).err,
              AllOf(StartsWith("kvist up: " + path + ":4: "), HasSubstr("block_sice"), HasSubstr("block_size")));
}

TEST_F(CliTest, LoadgenChecksItsArguments) {
  EXPECT_THAT(kvist({"loadgen", "--target", "localhost", "--model", "m"}).err, HasSubstr("expected http://host:port"));
  const Ran ran =
      kvist({"loadgen", "--target", "http://127.0.0.1:1", "--model", "m", "--concurrency", "1", "--duration", "5"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("--duration"), HasSubstr("needs a unit")));
}

TEST_F(CliTest, LoadgenAtATargetThatIsDownFails) {
  const auto workload = write("w.yaml", "workload: {starters: 1, starter_tokens_min: 50, starter_tokens_max: 60}\n");
  const Ran ran = kvist({"loadgen", "--target", "http://127.0.0.1:1", "--model", "m", "-f", workload, "--concurrency",
                         "1", "--duration", "100 ms"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ready http="), HasSubstr("0 succeeded"), HasSubstr("first error: ")));
  EXPECT_THAT(ran.err, HasSubstr("kvist loadgen: not one turn succeeded"));
}

/// A database with one run of one level.
std::string stored_run(const std::string& folder) {
  spec::SweepSpec sweep;
  sweep.name = "stored";
  sweep.deployment.workers.resize(1);
  sweep.modes = {spec::RoutingMode::kKv};
  sweep.levels = {4};
  const std::string path = folder + "/results.sqlite";
  auto store = results::Store::open(path).value();
  results::RunRecord run;
  run.name = sweep.name;
  run.started_utc = "2026-02-27T03:17:23Z";
  run.spec_yaml = spec::to_yaml(sweep);
  const auto number = store->begin_run(run).value();
  results::LevelRecord level;
  level.mode = spec::RoutingMode::kKv;
  level.concurrency = 4;
  level.started_utc = run.started_utc;
  level.started = level.measure_from = TimePoint(std::chrono::seconds(1));
  level.measure_to = TimePoint(std::chrono::seconds(2));
  level.snapshots.resize(3);
  EXPECT_TRUE(store->add_level(number, level).has_value());
  EXPECT_TRUE(store->finish_run(number, "2026-02-27T04:00:00Z").has_value());
  return path;
}

TEST_F(CliTest, ReportIsMadeAgainFromAStoredRun) {
  const auto database = stored_run(folder_);
  const Ran ran = kvist({"report", database, "--output", folder_ + "/again"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(folder_ + "/again/report.html"));
  for (const char* name : {"report.md", "report.json", "report.html"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/again/" + name)) << name;
  }
  EXPECT_EQ(kvist({"report", database}).status, 0);
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/report.md")) << "beside the database by default";
}

TEST_F(CliTest, ReportOfWhatIsNotThereMakesNothing) {
  const Ran missing = kvist({"report", folder_ + "/none.sqlite"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.sqlite: no such file"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/none.sqlite"));
  const Ran no_run = kvist({"report", stored_run(folder_), "--run", "7"});
  EXPECT_EQ(no_run.status, 1);
  EXPECT_THAT(no_run.err, HasSubstr("no run 7; it holds: 1"));
}

TEST(ExamplesTest, EveryExampleIsRead) {
  const std::filesystem::path examples = std::filesystem::path(KVIST_SOURCE_DIR) / "examples";
  for (const auto& entry : std::filesystem::directory_iterator(examples / "deployments")) {
    const auto read = spec::load_deployment(entry.path().string());
    EXPECT_TRUE(read.has_value()) << (read ? "" : read.error().message);
  }
  for (const auto& entry : std::filesystem::directory_iterator(examples / "sweeps")) {
    const auto read = spec::load_sweep(entry.path().string());
    EXPECT_TRUE(read.has_value()) << (read ? "" : read.error().message);
  }
}

}  // namespace
}  // namespace kvist::cli

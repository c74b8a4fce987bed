#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command_test.h"
#include "kvist/base/version.h"
#include "kvist/results/store.h"
#include "kvist/spec/files.h"

namespace kvist::cli::cli_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using CliTest = CommandTest;

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
  for (const char* command : {"worker", "gateway", "loadgen", "up", "sweep", "simulate", "report", "plan", "trace"}) {
    EXPECT_THAT(ran.out, HasSubstr(command));
  }
}

TEST_F(CliTest, WrongUsageExitsWithTwo) {
  EXPECT_EQ(kvist({}).status, 2);
  EXPECT_EQ(kvist({"fly"}).status, 2);
  EXPECT_EQ(kvist({"sweep"}).status, 2);
  EXPECT_EQ(kvist({"sweep", "-f", "x", "--unknown"}).status, 2);
  EXPECT_EQ(kvist({"loadgen", "--target", "http://h:1", "--model", "m", "--duration", "1 s"}).status, 2)
      << "a duration needs a concurrency";
  EXPECT_FALSE(kvist({"sweep"}).err.empty());
}

TEST_F(CliTest, WrongUsageSaysWhatWasNotUnderstoodAndWhatMayHaveBeenMeant) {
  EXPECT_THAT(kvist({}).err, StartsWith("kvist: needs a command: worker, gateway, "));
  EXPECT_THAT(kvist({"gatway", "-f", "x"}).err,
              StartsWith("kvist: unknown command \"gatway\"; did you mean gateway? The commands are: "));
  EXPECT_THAT(kvist({"fly"}).err, StartsWith("kvist: unknown command \"fly\"; the commands are: "));
  EXPECT_THAT(kvist({"plan", "capasity"}).err,
              StartsWith("kvist plan: unknown command \"capasity\"; did you mean capacity? "));
  EXPECT_EQ(kvist({"loadgen", "--concurency=3", "--target", "http://h:1"}).err,
            "kvist loadgen: unknown option --concurency; did you mean --concurrency?\nkvist loadgen --help says what "
            "there is.\n");
  EXPECT_EQ(kvist({"sweep", "-f", "x", "y"}).err,
            "kvist sweep: unexpected argument \"y\"\nkvist sweep --help says what there is.\n");
  EXPECT_EQ(kvist({"gateway"}).err, "kvist gateway: --file is required\nkvist gateway --help says what there is.\n");
  EXPECT_EQ(kvist({"report", "check", "x"}).err,
            "kvist report check: --reference is required\nkvist report check --help says what there is.\n");
}

TEST_F(CliTest, HelpIsACommandToo) {
  EXPECT_EQ(kvist({"help"}).out, kvist({"--help"}).out);
  EXPECT_EQ(kvist({"help", "report", "check"}).out, kvist({"report", "check", "--help"}).out);
  const Ran ran = kvist({"help", "reprot"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, StartsWith("kvist help: unknown command \"reprot\"; did you mean report? "));
  EXPECT_THAT(kvist({"help", "gateway", "x"}).err, HasSubstr("kvist gateway has no commands of its own"));
}

TEST_F(CliTest, AFailureIsOneLineOnStandardError) {
  for (const char* command : {"worker", "gateway", "up", "sweep", "simulate"}) {
    const Ran ran = kvist({command, "-f", folder_ + "/missing.yaml"});
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "kvist " + std::string(command) + ": " + folder_ + "/missing.yaml: No such file or directory\n");
    EXPECT_THAT(ran.out, IsEmpty());
  }
}

TEST_F(CliTest, APathThatCannotBeLookedAtIsAFailure) {
  const std::string name(300, 'a');
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"model", "create", name}, {"report", "compare", name, name}}) {
    const Ran ran = kvist(command);
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err, "kvist " + command[0] + " " + command[1] + ": " + name + ": File name too long\n");
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
  EXPECT_THAT(kvist({"loadgen", "--target", "http://127.0.0.1:1", "--model", "m", "--concurrency", "1", "--duration",
                     "5 s", "--warmup", "5 s"})
                  .err,
              HasSubstr("--warmup must be below --duration"));
}

TEST_F(CliTest, LoadgenAtATargetThatIsDownFails) {
  const auto workload = write("w.yaml", "workload: {starters: 1, starter_tokens_min: 50, starter_tokens_max: 60}\n");
  const Ran ran = kvist({"loadgen", "--target", "http://127.0.0.1:1", "--model", "m", "-f", workload, "--concurrency",
                         "1", "--duration", "100 ms"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("ready http="), HasSubstr("0 succeeded"), HasSubstr("client   "),
                             HasSubstr("loop delay p99"), HasSubstr("first error: ")));
  EXPECT_THAT(ran.err, HasSubstr("kvist loadgen: not one turn succeeded; the first that failed: "));
}

constexpr const char* kSmallSweep = R"(name: small
deployment:
  workers: {count: 2, kv_blocks: 1000, output_length: {mean_tokens: 20, standard_deviation_tokens: 4}}
workload: {starters: 2, starter_tokens_min: 200, starter_tokens_max: 300, max_tokens: 40}
method: {warmup: 1 s, snapshots: 1, snapshot_interval: 4 s, window: 4 s}
modes: [round_robin, kv]
levels: [2, 4]
)";

TEST_F(CliTest, SimulateRunsASweepInVirtualTimeAndPrintsItsSpeed) {
  const auto file = write("sweep.yaml", kSmallSweep);
  const Ran ran = kvist({"simulate", "-f", file, "--output", folder_ + "/out", "--threads", "2"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("round_robin 2: "), HasSubstr("kv 4: "), HasSubstr("TTFT p50"),
                             HasSubstr("report.html"), HasSubstr("results.sqlite"), HasSubstr("a core simulates")));
}

TEST_F(CliTest, SimulateTakesLevelsAndModesInPlaceOfTheFiles) {
  const auto file = write("sweep.yaml", kSmallSweep);
  const Ran ran = kvist({"simulate", "-f", file, "--output", folder_ + "/out", "--level", "3", "--level", "1",
                         "--level", "3", "--mode", "least-loaded"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("1 modes x 2 levels"), HasSubstr("least_loaded 1: "),
                             HasSubstr("least_loaded 3: "), Not(HasSubstr("kv 2: "))));
  EXPECT_THAT(kvist({"simulate", "-f", file, "--level", "0"}).err, HasSubstr("--level must be from 1 to 4096"));
  EXPECT_THAT(kvist({"simulate", "-f", file, "--mode", "psychic"}).err, AllOf(HasSubstr("psychic"), HasSubstr("kv")));
}

TEST_F(CliTest, SimulateRefusesWhatCannotRun) {
  std::string text = kSmallSweep;
  text.replace(text.find("kv_blocks: 1000"), 15, "profile: {gpu: h100, engine: vllm, memory_fraction: 0.5}");
  const Ran ran = kvist({"simulate", "-f", write("sweep.yaml", text), "--output", folder_ + "/out"});
  EXPECT_EQ(ran.status, 1);
  EXPECT_THAT(ran.err, HasSubstr("memory")) << "half of 80 GB does not hold 70 GB of weights";
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out"));
}

TEST_F(CliTest, ProfilesAreListedAndDescribed) {
  const Ran list = kvist({"plan", "profiles"});
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, AllOf(HasSubstr("h200"), HasSubstr("llama-3.1-70b-fp8"), HasSubstr("vllm")));
  const Ran one = kvist({"plan", "profiles", "--gpu", "h100", "--model", "llama-3.1-8b-fp8"});
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, AllOf(HasSubstr("H100"), HasSubstr("model.layers"), HasSubstr("Extrapolated")));
  const Ran three = kvist({"plan", "profiles", "--tensor-parallel", "3"});
  EXPECT_EQ(three.status, 1);
  EXPECT_THAT(three.err, HasSubstr("--tensor-parallel: 3; expected 1, 2 or 4"));
  const Ran unknown = kvist({"plan", "profiles", "--gpu", "abacus"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, AllOf(StartsWith("kvist plan profiles: "), HasSubstr("abacus"), HasSubstr("h200")));
}

TEST_F(CliTest, ATraceIsGeneratedAndReplayed) {
  const auto trace = folder_ + "/t.jsonl";
  const auto workload =
      write("w.yaml", "workload: {starters: 2, starter_tokens_min: 200, starter_tokens_max: 300, max_tokens: 40}\n");
  const Ran made = kvist({"trace", "generate", "-o", trace, "-f", workload, "--conversations", "5", "--seed", "3"});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("requests over"));
  std::string text = kSmallSweep;
  const auto from = text.find("workload:");
  text.replace(from, text.find('\n', from) - from, "workload: {trace: {file: t.jsonl, loop: closed}}");
  const Ran ran = kvist({"simulate", "-f", write("sweep.yaml", text), "--output", folder_ + "/out"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("0 failed"));
}

TEST_F(CliTest, ATraceIsNotGeneratedWithOptionsThatMeanNothing) {
  const auto error_of = [this](std::vector<std::string> more) {
    more.insert(more.begin(), {"trace", "generate", "-o", folder_ + "/t.jsonl"});
    const Ran ran = kvist(more);
    EXPECT_NE(ran.status, 0);
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/t.jsonl"));
    return ran.err;
  };
  EXPECT_THAT(error_of({"--kind", "agents", "--conversations", "3"}), HasSubstr("--conversations: is for chats"));
  EXPECT_THAT(error_of({"--kind", "agents", "--think-time", "3s"}), HasSubstr("--think-time: is for chats"));
  EXPECT_THAT(error_of({"--rate", "1"}), HasSubstr("--rate: is for --kind"));
  EXPECT_THAT(error_of({"--duration", "10 min"}), HasSubstr("--duration: is for --kind"));
  EXPECT_THAT(error_of({"--kind", "agents", "--duration", "10"}), HasSubstr("--duration"));
  for (const char* seed : {"-1", "18446744073709551616", "1.5", "0x10"}) {
    EXPECT_THAT(error_of({"--seed", seed}), HasSubstr("want a whole number from 0 to 18446744073709551615")) << seed;
  }
  EXPECT_EQ(
      kvist({"trace", "generate", "-o", folder_ + "/t.jsonl", "--conversations", "1", "--seed", "18446744073709551615"})
          .status,
      0);
}

/// A database with one run of one level.
std::string stored_run(const std::string& folder, const std::string& name = "stored") {
  spec::SweepSpec sweep;
  sweep.name = "stored";
  sweep.deployment.workers.resize(1);
  sweep.modes = {spec::RoutingMode::kKv};
  sweep.levels = {4};
  const std::string path = folder + "/results.sqlite";
  auto store = results::Store::open(path).value();
  results::RunRecord run;
  run.name = name;
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

TEST_F(CliTest, TheNameOfARunCommandsNoTerminal) {
  const auto database = stored_run(folder_, "\x1b[2J\x1b]0;owned\x07 mine");
  const Ran ran = kvist({"report", "compare", "--runs", database, "later=" + database});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("owned  mine"));
  EXPECT_EQ(ran.out.find_first_of("\x1b\x07"), std::string::npos) << ran.out;
}

TEST_F(CliTest, AStoredRunIsCheckedAgainstPublishedFigures) {
  const auto database = stored_run(folder_);
  const std::string reference = std::string(KVIST_SOURCE_DIR) + "/data/reference/trtllm-3xh200-rr-vs-kv-40-120.json";
  const Ran ran = kvist({"report", "check", database, "--reference", reference, "--json", folder_ + "/c.json"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("no bar"), HasSubstr("trtllm-3xh200-rr-vs-kv-40-120")));
  EXPECT_GT(std::filesystem::file_size(folder_ + "/c.json"), 100U);
  const std::string bars = std::string(KVIST_SOURCE_DIR) + "/examples/experiments/bars.yaml";
  const Ran with_bars = kvist({"report", "check", database, "--reference", reference, "--bars", bars});
  EXPECT_EQ(with_bars.status, 1) << "nothing that counts was measured";
  EXPECT_THAT(with_bars.err, AllOf(StartsWith("kvist report check: "), HasSubstr("not measured")));
  EXPECT_EQ(kvist({"report", "check", database}).status, 2);
  EXPECT_EQ(kvist({"report"}).status, 2);
}

TEST_F(CliTest, AReportIsRegeneratedFromAStoredRun) {
  const auto database = stored_run(folder_);
  const Ran ran = kvist({"report", database, "--output", folder_ + "/again"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr(folder_ + "/again/report.html"));
  for (const char* name : {"report.md", "report.json", "report.html"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/again/" + name)) << name;
  }
  EXPECT_EQ(kvist({"report", database}).status, 0);
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/report.md")) << "beside the database by default";
  EXPECT_EQ(kvist({"report", folder_}).status, 0) << "a folder that holds one";
  EXPECT_THAT(kvist({"report", folder_ + "/again"}).err, HasSubstr("again: no results.sqlite in it"));
}

TEST_F(CliTest, AReportOfAMissingRunWritesNothing) {
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
}  // namespace kvist::cli::cli_test

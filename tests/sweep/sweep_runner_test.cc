#include "kvist/sweep/sweep_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <set>

#include "kvist/base/yaml.h"
#include "sweep/fake_deployment.h"

namespace kvist::sweep::sweep_runner_test {
namespace {

using spec::RoutingMode;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

/// Counts what it is told.
class Observer final : public SweepObserver {
 public:
  std::shared_ptr<loadgen::LoadWatch> watch() override { return nullptr; }
  std::shared_ptr<workload::LoadFeed> feed() override { return nullptr; }
  void on_deployment(const deploy::Addresses& /*addresses*/) override {}
  void on_levels_skipped(std::span<const PlannedLevel> levels) override { skipped += levels.size(); }
  void on_level_begun(const PlannedLevel& /*level*/) override { ++begun; }
  void on_level_measured() override {}
  void on_level_stored(const results::LevelRecord& /*record*/) override { ++stored; }

  std::size_t skipped = 0, begun = 0, stored = 0;
};

class SweepRunnerTest : public testing::Test {
 protected:
  SweepRunnerTest() {
    std::string path = testing::TempDir() + "/kvist_sweep_XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
    sweep_.name = "test";
    sweep_.deployment.workers.resize(1);
    sweep_.workload.starters = 2;
    sweep_.workload.starter_tokens_min = 200;
    sweep_.workload.starter_tokens_max = 300;
    sweep_.workload.target_rps = 1'000;
    sweep_.method.warmup = std::chrono::milliseconds(50);
    sweep_.method.snapshots = 2;
    sweep_.method.snapshot_interval = sweep_.method.window = std::chrono::milliseconds(50);
    sweep_.modes = {RoutingMode::kRoundRobin, RoutingMode::kKv};
    sweep_.levels = {2, 3};
    sweep_.output_directory = folder_ + "/out";
  }
  ~SweepRunnerTest() override { std::filesystem::remove_all(folder_); }

  SweepOutcome run(Behaviour behaviour = Behaviour::kAnswers, std::stop_token stop = {}) {
    const FakeChatServer server(behaviour);
    SweepOptions options;
    options.make_deployer = [&](const std::string& directory) {
      run_directories_.push_back(directory);
      return std::make_unique<FakeDeployer>(script_, server.url());
    };
    options.progress = [&](std::string_view line) { progress_.emplace_back(line); };
    options.stop = std::move(stop);
    options.calibration = calibration_;
    options.resume = resume_;
    options.observer = observer_;
    auto outcome = SweepRunner(sweep_, std::move(options)).run();
    EXPECT_TRUE(outcome.has_value()) << (outcome ? "" : outcome.error().message);
    return std::move(*outcome);
  }

  static results::RunRecord stored(const SweepOutcome& outcome) {
    const auto store = results::Store::open(outcome.directory + "/results.sqlite");
    EXPECT_TRUE(store.has_value());
    const auto runs = (*store)->runs();
    EXPECT_EQ(runs->size(), 1U);
    return (*store)->load_run(runs->front()).value();
  }

  std::string folder_;
  spec::SweepSpec sweep_;
  DeployerScript script_;
  std::vector<std::string> run_directories_;
  std::vector<std::string> progress_;
  std::optional<loadgen::Calibration> calibration_;
  std::string resume_;
  SweepObserver* observer_ = nullptr;
  std::atomic<int> second_level_begun_ = 0;
};

TEST_F(SweepRunnerTest, EachModeHasAFreshDeploymentAndEachLevelProofOfIdlenessAroundIt) {
  sweep_.levels = {2};
  const SweepOutcome outcome = run();
  ASSERT_FALSE(outcome.failure.has_value()) << outcome.failure->message;
  EXPECT_THAT(script_.calls,
              ElementsAre("apply round_robin", "await_ready", "set_routing_mode round_robin",  //
                          "await_idle", "collect", "collect", "collect", "await_idle", "collect", "stop", "apply kv",
                          "await_ready", "set_routing_mode kv",  //
                          "await_idle", "collect", "collect", "collect", "await_idle", "collect", "stop"));
  EXPECT_THAT(run_directories_, ElementsAre(outcome.directory + "/logs/round_robin", outcome.directory + "/logs/kv"));
}

TEST_F(SweepRunnerTest, AlternatingArmsOnOneDeploymentHaveTheirCachesEmptiedBeforeEachMeasurement) {
  sweep_.levels = {2};
  sweep_.method.repetitions = 2;
  sweep_.comparison = {.order = spec::ArmOrder::kAbba, .caches = spec::CacheProof::kReset};
  const SweepOutcome outcome = run();
  ASSERT_FALSE(outcome.failure.has_value()) << outcome.failure->message;
  std::erase(script_.calls, "collect");
  EXPECT_THAT(script_.calls,
              ElementsAre("apply round_robin", "await_ready",  //
                          "set_routing_mode round_robin", "empty_caches", "await_idle", "await_idle",
                          "set_routing_mode kv", "empty_caches", "await_idle", "await_idle",  //
                          "set_routing_mode kv", "empty_caches", "await_idle", "await_idle",
                          "set_routing_mode round_robin", "empty_caches", "await_idle", "await_idle", "stop"));
  EXPECT_EQ(run_directories_.size(), 1U);
}

TEST_F(SweepRunnerTest, AlternatingArmsHaveANewDeploymentEachTimeIfThatIsTheProof) {
  sweep_.levels = {2};
  sweep_.method.repetitions = 2;
  sweep_.comparison.order = spec::ArmOrder::kAbba;
  const SweepOutcome outcome = run();
  ASSERT_FALSE(outcome.failure.has_value()) << outcome.failure->message;
  EXPECT_THAT(run_directories_,
              ElementsAre(outcome.directory + "/logs/round_robin-2-1", outcome.directory + "/logs/kv-2-1",
                          outcome.directory + "/logs/kv-2-2", outcome.directory + "/logs/round_robin-2-2"));
}

TEST_F(SweepRunnerTest, AnInterruptedSweepGoesOnWhereItEnded) {
  script_.dies_after_collects = 10;  // in the second mode
  const SweepOutcome broken = run();
  ASSERT_TRUE(broken.failure.has_value());
  const results::RunRecord before = stored(broken);
  ASSERT_EQ(before.levels.size(), broken.levels_done);
  ASSERT_GT(broken.levels_done, 0U);
  ASSERT_LT(broken.levels_done, 4U);
  script_ = {};
  resume_ = broken.directory;
  Observer observer;
  observer_ = &observer;
  const SweepOutcome resumed = run();
  ASSERT_FALSE(resumed.failure.has_value()) << resumed.failure->message;
  EXPECT_EQ(resumed.directory, broken.directory);
  EXPECT_EQ(resumed.levels_done, 4U);
  EXPECT_EQ(observer.skipped, broken.levels_done) << "who watches is told that they will not come";
  EXPECT_EQ(observer.begun, 4U - broken.levels_done);
  EXPECT_EQ(observer.stored, observer.begun);
  const results::RunRecord after = stored(resumed);
  ASSERT_EQ(after.levels.size(), 4U);
  for (std::size_t i = 0; i < before.levels.size(); ++i) {
    ASSERT_EQ(after.levels[i].turns.size(), before.levels[i].turns.size()) << "what was there was not touched";
    EXPECT_EQ(after.levels[i].started, before.levels[i].started);
  }
  EXPECT_EQ(after.levels[2].mode, RoutingMode::kKv);
}

TEST_F(SweepRunnerTest, LeavesResultsAndReportBehind) {
  const SweepOutcome outcome = run();
  ASSERT_FALSE(outcome.failure.has_value()) << outcome.failure->message;
  EXPECT_EQ(outcome.levels_done, 4U);
  EXPECT_EQ(outcome.levels_planned, 4U);
  for (const char* name : {"results.sqlite", "report.md", "report.json", "report.html"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(outcome.directory + "/" + name)) << name;
  }
  EXPECT_FALSE(outcome.table.empty());
  EXPECT_THAT(progress_, Contains(HasSubstr("kv 3: snapshot 2/2")));
  EXPECT_THAT(progress_, Contains(HasSubstr("0 failed, KV hit rate 64.0 %, TTFT p50 ")));

  const results::RunRecord run = stored(outcome);
  EXPECT_EQ(run.name, "test");
  EXPECT_FALSE(run.kvist_version.empty());
  EXPECT_FALSE(run.started_utc.empty());
  EXPECT_FALSE(run.finished_utc.empty());
  EXPECT_TRUE(run.machine.contains("kernel"));
  const auto read = spec::read_sweep(YamlNode::parse(run.spec_yaml, "stored").value(), ".");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, sweep_) << "the whole configuration is stored";
}

TEST_F(SweepRunnerTest, RecordsHoldWhatWasMeasured) {
  const results::RunRecord run = stored(this->run());
  ASSERT_EQ(run.levels.size(), 4U);
  std::set<std::uint64_t> seeds;
  for (const results::LevelRecord& level : run.levels) {
    EXPECT_EQ(level.snapshots.size(), 2U);
    EXPECT_GE(level.measure_from - level.started, sweep_.method.warmup);
    EXPECT_EQ(level.measure_to, level.snapshots.back().at);
    EXPECT_FALSE(level.turns.empty());
    EXPECT_THAT(level.turns, Each(Field(&workload::TurnSample::outcome, workload::TurnOutcome::kSucceeded)));
    EXPECT_THAT(level.turns, Each(Field(&workload::TurnSample::cached_tokens, 64)));
    for (const auto& turn : level.turns) EXPECT_GE(turn.sent, level.started) << "a turn of an earlier level";
    ASSERT_EQ(level.workers.size(), 1U);
    EXPECT_EQ(level.workers[0].prefix_query_tokens, 300U) << "between the readings before and after";
    EXPECT_EQ(level.workers[0].prefix_hit_tokens, 192U);
    EXPECT_THAT(level.remarks, IsEmpty());
    seeds.insert(level.seed);
  }
  EXPECT_EQ(seeds.size(), 2U) << "one seed per level, the same in both modes";
}

TEST_F(SweepRunnerTest, LevelsBeyondTheCalibrationAreRemarked) {
  calibration_.emplace();
  calibration_->add({.streams = 2, .events_per_s = 1e9, .turns_per_s = 1e9, .turns = 1});
  calibration_->add({.streams = 3, .itl_error_p99_ms = 5, .turns = 1});
  const results::RunRecord run = stored(this->run());
  ASSERT_EQ(run.levels.size(), 4U);
  for (const results::LevelRecord& level : run.levels) {
    EXPECT_EQ(level.remarks.size(), level.concurrency == 3 ? 1U : 0U);
    if (level.concurrency == 3) {
      EXPECT_THAT(level.remarks, Contains(HasSubstr("calibrated for")));
    }
    ASSERT_TRUE(level.client.certificate.has_value()) << "it is kept in the database";
    EXPECT_GT(level.client.certificate->chunks, 0U);
  }
}

TEST_F(SweepRunnerTest, RepetitionsAreMeasuredOnTheSameDeployment) {
  sweep_.levels = {2};
  sweep_.method.repetitions = 2;
  const SweepOutcome outcome = run();
  ASSERT_FALSE(outcome.failure.has_value()) << outcome.failure->message;
  EXPECT_EQ(outcome.levels_done, 4U);
  EXPECT_EQ(run_directories_.size(), 2U) << "one deployment per mode";
  EXPECT_THAT(progress_, Contains(HasSubstr("kv 2 (2/2): snapshot 2/2")));
}

TEST_F(SweepRunnerTest, ALoadThatGoesOnNeitherDrainsNorProvesIdlenessBetweenLevels) {
  sweep_.modes = {RoutingMode::kKv};
  sweep_.method.between_levels = spec::BetweenLevels::kContinue;
  const SweepOutcome outcome = run();
  ASSERT_FALSE(outcome.failure.has_value()) << outcome.failure->message;
  EXPECT_THAT(script_.calls, ElementsAre("apply kv", "await_ready", "set_routing_mode kv", "await_idle", "collect",  //
                                         "collect", "collect", "collect",  // the first level
                                         "collect", "collect", "await_idle", "collect", "stop"));
  const results::RunRecord run = stored(outcome);
  ASSERT_EQ(run.levels.size(), 2U);
  EXPECT_EQ(run.levels[0].seed, run.levels[1].seed);
  EXPECT_GE(run.levels[1].started, run.levels[0].measure_to);
  for (const results::LevelRecord& level : run.levels) {
    EXPECT_EQ(level.snapshots.size(), 2U);
    EXPECT_FALSE(level.turns.empty());
    EXPECT_EQ(level.workers.at(0).prefix_query_tokens, 300U) << "from one reading beside the load to the next";
  }
  for (const auto& turn : run.levels[0].turns) EXPECT_LT(turn.sent, run.levels[1].started);
  for (const auto& turn : run.levels[1].turns) EXPECT_GE(turn.sent, run.levels[1].started);
}

TEST_F(SweepRunnerTest, OfALoadThatGoesOnTheLevelsBeforeAFailureAreKept) {
  sweep_.method.between_levels = spec::BetweenLevels::kContinue;
  script_.dies_after_collects = 5;  // the first snapshot of the second level
  const SweepOutcome outcome = run();
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_THAT(outcome.failure->message, AllOf(HasSubstr("round_robin 3"), HasSubstr("signal 9")));
  const results::RunRecord run = stored(outcome);
  ASSERT_EQ(run.levels.size(), 1U);
  EXPECT_EQ(run.levels[0].concurrency, 2U);
  EXPECT_FALSE(run.levels[0].turns.empty());
}

TEST_F(SweepRunnerTest, ADeadWorkerEndsTheSweepAndKeepsTheFinishedLevels) {
  script_.dies_after_collects = 5;  // the first reading of the second level
  const SweepOutcome outcome = run();
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_THAT(outcome.failure->message, AllOf(HasSubstr("round_robin 3"), HasSubstr("signal 9")));
  EXPECT_EQ(outcome.levels_done, 1U);
  EXPECT_TRUE(outcome.files.has_value());
  EXPECT_EQ(stored(outcome).levels.size(), 1U);
  EXPECT_EQ(script_.calls.back(), "stop");
}

TEST_F(SweepRunnerTest, AnInterruptEndsTheSweepAndKeepsTheFinishedLevels) {
  std::stop_source stop;
  std::jthread user([&](const std::stop_token& quit) {
    while (!quit.stop_requested() && second_level_begun_ == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stop.request_stop();
  });
  const FakeChatServer server(Behaviour::kAnswers);
  SweepOptions options;
  options.make_deployer = [&](const std::string&) { return std::make_unique<FakeDeployer>(script_, server.url()); };
  options.progress = [&](std::string_view line) {
    if (line.find("round_robin 3: warm-up") != std::string_view::npos) second_level_begun_ = 1;
  };
  options.stop = stop.get_token();
  sweep_.method.warmup = std::chrono::seconds(1);
  const auto outcome = SweepRunner(sweep_, std::move(options)).run();
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->failure.has_value());
  EXPECT_EQ(outcome->failure->code, ErrorCode::kCancelled);
  EXPECT_EQ(outcome->levels_done, 1U);
  EXPECT_TRUE(outcome->files.has_value());
  EXPECT_EQ(script_.calls.back(), "stop");
}

TEST_F(SweepRunnerTest, WithoutAnyLevelThereIsNoReport) {
  std::stop_source stop;
  stop.request_stop();
  const SweepOutcome outcome = run(Behaviour::kAnswers, stop.get_token());
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_EQ(outcome.failure->code, ErrorCode::kCancelled);
  EXPECT_EQ(outcome.levels_done, 0U);
  EXPECT_FALSE(outcome.files.has_value());
}

TEST_F(SweepRunnerTest, ALevelInWhichNothingWorkedIsAFailure) {
  const SweepOutcome outcome = run(Behaviour::kRefuses);
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_THAT(outcome.failure->message, AllOf(HasSubstr("round_robin 2: none of"), HasSubstr("out of order")));
  EXPECT_EQ(stored(outcome).levels.size(), 1U) << "what was measured is kept: it shows the errors";
}

TEST_F(SweepRunnerTest, AWrongModelEndsTheSweepAtOnce) {
  sweep_.method.warmup = std::chrono::hours(1);
  const SweepOutcome outcome = run(Behaviour::kKnowsNoModel);
  ASSERT_TRUE(outcome.failure.has_value());
  EXPECT_THAT(outcome.failure->message, AllOf(HasSubstr("round_robin 2: the first 8 answers all refuse the load"),
                                              HasSubstr("HTTP 404: no model m; check the model's name")));
  EXPECT_EQ(outcome.levels_done, 0U);
}

TEST_F(SweepRunnerTest, TurnsThatDoNotEndInTimeAreBrokenOffAndRemarked) {
  sweep_.method.drain_timeout = std::chrono::milliseconds(50);
  const SweepOutcome outcome = run(Behaviour::kNeverEnds);
  const results::RunRecord run = stored(outcome);
  ASSERT_EQ(run.levels.size(), 1U);
  EXPECT_THAT(run.levels[0].remarks, ElementsAre(HasSubstr("2 turns had not ended 0.05 s after")));
  EXPECT_EQ(run.levels[0].turns.size(), 2U);
  EXPECT_THAT(run.levels[0].turns, Each(Field(&workload::TurnSample::outcome, workload::TurnOutcome::kAbandoned)));
}

TEST_F(SweepRunnerTest, AMissedReadingOfGaugesIsARemarkNotAFailure) {
  sweep_.modes = {RoutingMode::kKv};
  sweep_.levels = {2};
  script_.collect_that_fails = 2;  // at the first snapshot
  const SweepOutcome outcome = run();
  EXPECT_FALSE(outcome.failure.has_value());
  EXPECT_THAT(stored(outcome).levels.at(0).remarks, ElementsAre(AllOf(HasSubstr("snapshot 1"), HasSubstr("too busy"))));
}

TEST_F(SweepRunnerTest, TwoSweepsNeverShareAFolder) {
  sweep_.modes = {RoutingMode::kKv};
  sweep_.levels = {2};
  EXPECT_NE(run().directory, run().directory);
}

}  // namespace
}  // namespace kvist::sweep::sweep_runner_test

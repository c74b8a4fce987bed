#include "kvist/sweep/simulated_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "kvist/analysis/comparison.h"
#include "kvist/base/yaml.h"
#include "kvist/results/store.h"
#include "kvist/sweep/run_progress.h"

namespace kvist::sweep::simulated_sweep_test {
namespace {

using spec::RoutingMode;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class SimulatedSweepTest : public testing::Test {
 protected:
  SimulatedSweepTest() {
    std::string path = testing::TempDir() + "/kvist_simulated_XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
    sweep_.name = "test";
    sweep_.deployment.workers.resize(2);
    sweep_.deployment.workers[0].name = "w-0";
    sweep_.deployment.workers[1].name = "w-1";
    for (spec::WorkerSpec& worker : sweep_.deployment.workers) {
      worker.kv_blocks = 1'000;
      worker.output_length = {.mean_tokens = 30, .standard_deviation_tokens = 5};
    }
    sweep_.workload.starters = 2;
    sweep_.workload.starter_tokens_min = 200;
    sweep_.workload.starter_tokens_max = 300;
    sweep_.workload.max_tokens = 50;
    sweep_.method.warmup = std::chrono::seconds(2);
    sweep_.method.snapshots = 2;
    sweep_.method.snapshot_interval = sweep_.method.window = std::chrono::seconds(5);
    sweep_.modes = {RoutingMode::kRoundRobin, RoutingMode::kKv};
    sweep_.levels = {2, 6};
    sweep_.output_directory = folder_ + "/out";
  }
  ~SimulatedSweepTest() override { std::filesystem::remove_all(folder_); }

  Result<SimulatedSweepOutcome> try_run(unsigned threads = 1, std::stop_token stop = {}) {
    SimulatedSweepOptions options;
    options.threads = threads;
    options.progress = [&](std::string_view line) { progress_.emplace_back(line); };
    options.stop = std::move(stop);
    return simulate_sweep(sweep_, options);
  }

  SimulatedSweepOutcome run(unsigned threads = 1, std::stop_token stop = {}) {
    auto outcome = try_run(threads, std::move(stop));
    EXPECT_TRUE(outcome.has_value()) << (outcome ? "" : outcome.error().message);
    return std::move(*outcome);
  }

  static results::RunRecord stored(const SimulatedSweepOutcome& outcome) {
    const auto store = results::Store::open(outcome.sweep.directory + "/results.sqlite");
    EXPECT_TRUE(store.has_value());
    return (*store)->load_run((*store)->runs()->front()).value();
  }

  std::string folder_;
  spec::SweepSpec sweep_;
  std::vector<std::string> progress_;
};

TEST_F(SimulatedSweepTest, LeavesTheSameFilesBehindAsALiveSweepAndSaysThatItIsSimulated) {
  const SimulatedSweepOutcome outcome = run();
  ASSERT_FALSE(outcome.sweep.failure.has_value()) << outcome.sweep.failure->message;
  EXPECT_EQ(outcome.sweep.levels_done, 4U);
  EXPECT_EQ(outcome.sweep.levels_planned, 4U);
  for (const char* name : {"results.sqlite", "report.md", "report.json", "report.html"}) {
    EXPECT_TRUE(std::filesystem::is_regular_file(outcome.sweep.directory + "/" + name)) << name;
  }
  EXPECT_FALSE(outcome.sweep.table.empty());
  EXPECT_THAT(progress_, Contains(AllOf(HasSubstr("kv 6: "), HasSubstr("0 failed"))));

  const results::RunRecord run = stored(outcome);
  EXPECT_TRUE(run.simulated);
  EXPECT_EQ(run.name, "test");
  EXPECT_EQ(run.threads, 1U);
  EXPECT_FALSE(run.finished_utc.empty());
  const auto read = spec::read_sweep(YamlNode::parse(run.spec_yaml, "stored").value(), ".");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read, sweep_) << "the whole configuration is stored";
}

TEST_F(SimulatedSweepTest, SaysWhatBecameOfATrace) {
  const std::string trace = folder_ + "/t.jsonl";
  std::ofstream(trace) << R"({"timestamp": 0, "input_length": 900, "output_length": 500, "hash_ids": []})" << "\n"
                       << R"({"timestamp": 9, "input_length": 100, "output_length": 40, "hash_ids": []})" << "\n";
  for (spec::WorkerSpec& worker : sweep_.deployment.workers) worker.max_model_len = 1'000;
  sweep_.workload.trace.file = trace;
  sweep_.modes = {RoutingMode::kKv};
  sweep_.levels = {1};
  const results::LevelRecord level = stored(run()).levels.at(0);
  EXPECT_THAT(level.remarks, Contains(AllOf(HasSubstr("the trace ended"), HasSubstr("measured up to 12.0 s"))));
  EXPECT_THAT(level.remarks, Contains(HasSubstr("1 of 2 answers are shorter than the trace has them, most of all that "
                                                "of request 0 (from 0): 100 of 500 tokens")));
}

TEST_F(SimulatedSweepTest, RecordsHoldWhatTheMethodAsksFor) {
  sweep_.method.repetitions = 2;
  const SimulatedSweepOutcome outcome = run();
  const results::RunRecord run = stored(outcome);
  ASSERT_EQ(run.levels.size(), 8U);
  std::vector<PlannedLevel> planned;
  for (const PlannedMode& mode : make_plan(sweep_))
    planned.insert(planned.end(), mode.levels.begin(), mode.levels.end());
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < run.levels.size(); ++i) {
    const results::LevelRecord& level = run.levels[i];
    EXPECT_EQ(level.mode, planned[i].mode) << "in the order of the plan";
    EXPECT_EQ(level.concurrency, planned[i].concurrency);
    EXPECT_EQ(level.repetition, planned[i].repetition);
    EXPECT_EQ(level.seed, planned[i].seed);
    EXPECT_EQ(level.measure_from, TimePoint(std::chrono::seconds(2)));
    EXPECT_EQ(level.measure_to, TimePoint(std::chrono::seconds(12)));
    EXPECT_EQ(level.snapshots.size(), 2U);
    EXPECT_EQ(level.workers.size(), 2U);
    std::uint64_t of_turns = 0;
    std::uint64_t of_workers = 0;
    for (const auto& turn : level.turns) {
      EXPECT_EQ(turn.outcome, workload::TurnOutcome::kSucceeded) << turn.error;
      of_turns += turn.completion_tokens;
    }
    for (const auto& worker : level.workers) of_workers += worker.generated_tokens;
    EXPECT_GT(of_turns, 0U);
    EXPECT_EQ(of_turns, of_workers) << "tokens out are tokens in";
    tokens += of_turns;
  }
  EXPECT_EQ(outcome.speed.output_tokens, tokens);
  EXPECT_GE(outcome.speed.simulated_s, 8 * 12);
}

TEST_F(SimulatedSweepTest, TheNumberOfThreadsChangesNothing) {
  sweep_.method.repetitions = 3;
  const results::RunRecord one = stored(run(1));
  const results::RunRecord four = stored(run(4));
  ASSERT_EQ(one.levels.size(), four.levels.size());
  for (std::size_t i = 0; i < one.levels.size(); ++i) {
    EXPECT_EQ(one.levels[i].seed, four.levels[i].seed);
    ASSERT_EQ(one.levels[i].turns.size(), four.levels[i].turns.size());
    for (std::size_t t = 0; t < one.levels[i].turns.size(); ++t) {
      EXPECT_EQ(one.levels[i].turns[t].ended, four.levels[i].turns[t].ended);
      EXPECT_EQ(one.levels[i].turns[t].worker, four.levels[i].turns[t].worker);
    }
  }
}

// If there are threads to spare, each level of a large fleet has two.
TEST_F(SimulatedSweepTest, ASecondThreadChangesNothing) {
  const spec::WorkerSpec worker = sweep_.deployment.workers.front();
  sweep_.deployment.workers.assign(simulation::kLargeFleet, worker);
  for (std::size_t i = 0; i < simulation::kLargeFleet; ++i)
    sweep_.deployment.workers[i].name = "w-" + std::to_string(i);
  sweep_.workload.target_rps = 200;
  sweep_.modes = {RoutingMode::kKv};
  sweep_.levels = {100};
  sweep_.method.snapshots = 1;
  sweep_.method.snapshot_interval = sweep_.method.window = std::chrono::seconds(1);
  const SimulatedSweepOutcome one = run(1);
  const SimulatedSweepOutcome two = run(2);
  EXPECT_EQ(one.speed.ahead, 0U);
  EXPECT_GT(two.speed.ahead, two.speed.steps / 2);
  const results::RunRecord alone = stored(one);
  const results::RunRecord beside = stored(two);
  ASSERT_EQ(alone.levels[0].turns.size(), beside.levels[0].turns.size());
  for (std::size_t t = 0; t < alone.levels[0].turns.size(); ++t)
    EXPECT_EQ(alone.levels[0].turns[t].ended, beside.levels[0].turns[t].ended);
}

TEST_F(SimulatedSweepTest, ALoadThatGoesOnIsStoredLevelByLevelOnAnyNumberOfThreads) {
  sweep_.method.repetitions = 2;
  sweep_.method.between_levels = spec::BetweenLevels::kContinue;
  const results::RunRecord one = stored(run(1));
  const results::RunRecord four = stored(run(4));
  ASSERT_EQ(one.levels.size(), 8U);
  ASSERT_EQ(four.levels.size(), 8U);
  for (std::size_t i = 0; i < one.levels.size(); ++i) {
    const results::LevelRecord& level = one.levels[i];
    EXPECT_EQ(level.concurrency, i % 2 == 0 ? 2U : 6U);
    EXPECT_EQ(level.seed, one.levels[i / 2 * 2].seed) << "one load";
    EXPECT_EQ(level.started, TimePoint(std::chrono::seconds(i % 2 == 0 ? 0 : 12)));
    EXPECT_EQ(level.measure_to, level.started + std::chrono::seconds(12));
    EXPECT_EQ(level.snapshots.size(), 2U);
    EXPECT_FALSE(level.turns.empty());
    for (const workload::TurnSample& turn : level.turns) EXPECT_GE(turn.sent, level.started);
    ASSERT_EQ(level.turns.size(), four.levels[i].turns.size());
    for (std::size_t t = 0; t < level.turns.size(); ++t) {
      EXPECT_EQ(level.turns[t].ended, four.levels[i].turns[t].ended);
    }
  }
  for (std::size_t load = 0; load < 8; load += 2) {
    std::uint64_t of_turns = 0;
    std::uint64_t of_workers = 0;
    for (const std::size_t i : {load, load + 1}) {
      for (const auto& turn : one.levels[i].turns) of_turns += turn.completion_tokens;
      for (const auto& worker : one.levels[i].workers) of_workers += worker.generated_tokens;
    }
    EXPECT_EQ(of_turns, of_workers) << "over the load, not over each level";
  }
}

/// A rig for two arms of one mode, whose random choices differ: what they show is chance.
class EqualArmsTest : public SimulatedSweepTest {
 protected:
  EqualArmsTest() {
    sweep_.modes = {};
    sweep_.arms = {{.arm = spec::Arm("a"), .mode = RoutingMode::kRandom},
                   {.arm = spec::Arm("b"), .mode = RoutingMode::kRandom}};
    sweep_.levels = {8};
    sweep_.comparison.order = spec::ArmOrder::kRandom;
    for (spec::WorkerSpec& worker : sweep_.deployment.workers) worker.kv_blocks = 60;
    sweep_.simulation.timeline_period = {};
  }
};

TEST_F(EqualArmsTest, ShowNothingBeyondTheStatedRate) {
  // 20 comparisons of six figures each: of 120 intervals of 95 %, 6 miss on average; with figures of one run that go
  // together, more than 18 would come about less than once in a thousand times.
  std::size_t decided = 0;
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    sweep_.workload.seed = seed;
    sweep_.method.repetitions = 6;
    const results::RunRecord stored_run = stored(run(2));
    const analysis::RunAnalysis analysis(stored_run, sweep_);
    EXPECT_THAT(analysis::refusals(analysis), testing::IsEmpty());
    const auto comparison = analysis::compare_modes(analysis);
    ASSERT_TRUE(comparison.has_value());
    for (const analysis::FigureComparison& figure : comparison->levels.at(0).figures) {
      ASSERT_EQ(figure.change.pairs, 6U);
      ASSERT_TRUE(figure.detectable.has_value());
      decided += figure.verdict == analysis::PairedVerdict::kEqual ? 0 : 1;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 120U);
  EXPECT_LE(decided, 18U);
}

TEST_F(EqualArmsTest, DifferInTheirRandomChoicesAndInNothingElse) {
  const results::RunRecord run_of_both = stored(run());
  ASSERT_EQ(run_of_both.levels.size(), 2U);
  EXPECT_EQ(run_of_both.levels[0].seed, run_of_both.levels[1].seed);
  std::map<std::pair<std::uint64_t, std::uint32_t>, const workload::TurnSample*> turns;
  for (const auto& turn : run_of_both.levels[0].turns) turns[{turn.conversation.value(), turn.turn}] = &turn;
  std::size_t elsewhere = 0;
  std::size_t common = 0;
  for (const auto& turn : run_of_both.levels[1].turns) {
    const auto other = turns.find({turn.conversation.value(), turn.turn});
    if (other == turns.end()) continue;
    ++common;
    EXPECT_EQ(turn.prompt_tokens, other->second->prompt_tokens);
    elsewhere += turn.worker != other->second->worker ? 1 : 0;
  }
  EXPECT_GT(common, 20U);
  EXPECT_GT(elsewhere, common / 4);
}

TEST_F(EqualArmsTest, RepetitionsEndWhenTheIntervalIsNarrowEnough) {
  sweep_.method.repetitions = 30;
  sweep_.comparison.stop_when = spec::StopRule{.metric = "ttft_p50_ms", .half_width = 1'000};
  const SimulatedSweepOutcome wide = run(2);
  EXPECT_EQ(wide.sweep.levels_done, 10U) << "five rounds of two arms";
  EXPECT_EQ(wide.sweep.levels_planned, 10U);
  ASSERT_FALSE(wide.sweep.failure.has_value());
  sweep_.comparison.stop_when->half_width = 0.001;
  EXPECT_EQ(run(2).sweep.levels_done, 60U) << "never so narrow";
}

TEST_F(SimulatedSweepTest, FrozenRepliesAndOpeningsAreTheSameInBothArmsAndCacheTheirOwnAlone) {
  sweep_.levels = {4};
  sweep_.comparison.replies = spec::ArmReplies::kFrozen;
  sweep_.comparison.caches = spec::CacheProof::kNonce;
  const results::RunRecord both = stored(run());
  ASSERT_EQ(both.levels.size(), 2U);
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::uint32_t> prompts;
  for (const auto& turn : both.levels[0].turns) prompts[{turn.conversation.value(), turn.turn}] = turn.prompt_tokens;
  std::size_t common = 0;
  for (const auto& turn : both.levels[1].turns) {
    const auto other = prompts.find({turn.conversation.value(), turn.turn});
    if (other == prompts.end()) continue;
    ++common;
    EXPECT_EQ(turn.prompt_tokens, other->second);
  }
  EXPECT_GT(common, 20U);
  const analysis::RunAnalysis analysis(both, sweep_);
  EXPECT_THAT(analysis::refusals(analysis), testing::IsEmpty());
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    ASSERT_TRUE(level.analysis.cache_bounds.has_value());
    EXPECT_GT(level.analysis.hit_rate.client_cached_tokens, 0U) << "conversations of one arm share what they share";
    EXPECT_LE(level.analysis.hit_rate.client_cached_tokens, level.analysis.cache_bounds->endless);
  }
}

TEST_F(SimulatedSweepTest, NoPolicyReusesMoreThanTheBounds) {
  for (spec::WorkerSpec& worker : sweep_.deployment.workers) worker.kv_blocks = 80;
  const results::RunRecord stored_run = stored(run());
  const analysis::RunAnalysis analysis(stored_run, sweep_);
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const auto& bounds = level.analysis.cache_bounds;
    ASSERT_TRUE(bounds.has_value());
    EXPECT_EQ(bounds->prompt_tokens, level.analysis.hit_rate.client_prompt_tokens);
    const std::uint64_t cached = level.analysis.hit_rate.client_cached_tokens;
    EXPECT_GT(cached, 0U);
    EXPECT_LE(cached, bounds->routed);
    EXPECT_LE(bounds->routed, bounds->fleet);
    EXPECT_LE(bounds->routed, bounds->routed_endless);
    EXPECT_LE(bounds->fleet, bounds->endless);
    EXPECT_LE(bounds->routed_endless, bounds->endless);
  }
}

/// The dump of a run without what differs by nature: everything but the row of times.
std::vector<results::LevelRecord> levels_in(const std::string& directory) {
  const auto store = results::Store::open(directory + "/results.sqlite");
  return (*store)->load_run((*store)->runs()->front())->levels;
}

TEST_F(SimulatedSweepTest, AnInterruptedSweepGoesOnAndEndsAsIfNothingHadHappened) {
  sweep_.method.repetitions = 2;
  const SimulatedSweepOutcome whole = run();
  std::stop_source stop;
  SimulatedSweepOptions options;
  options.threads = 1;
  int lines = 0;
  options.progress = [&](std::string_view) {
    if (++lines == 4) stop.request_stop();  // the first line and three levels
  };
  options.stop = stop.get_token();
  const auto broken_off = simulate_sweep(sweep_, options);
  ASSERT_TRUE(broken_off.has_value());
  EXPECT_EQ(broken_off->sweep.levels_done, 3U);
  SimulatedSweepOptions again;
  again.resume = broken_off->sweep.directory;
  again.progress = [](std::string_view) {};
  const auto resumed = simulate_sweep(interrupted_sweep(again.resume).value(), again);
  ASSERT_TRUE(resumed.has_value()) << resumed.error().message;
  EXPECT_FALSE(resumed->sweep.failure.has_value());
  EXPECT_EQ(resumed->sweep.levels_done, 8U);
  EXPECT_EQ(resumed->sweep.directory, broken_off->sweep.directory);
  const auto one = levels_in(whole.sweep.directory);
  const auto other = levels_in(resumed->sweep.directory);
  ASSERT_EQ(one.size(), other.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].mode, other[i].mode);
    EXPECT_EQ(one[i].concurrency, other[i].concurrency);
    ASSERT_EQ(one[i].turns.size(), other[i].turns.size());
    for (std::size_t t = 0; t < one[i].turns.size(); ++t) EXPECT_EQ(one[i].turns[t].ended, other[i].turns[t].ended);
  }
  again.resume = folder_ + "/nowhere";
  EXPECT_FALSE(simulate_sweep(sweep_, again).has_value());
}

TEST_F(SimulatedSweepTest, ResultsOfAnotherSweepAreNotGoneOnWith) {
  const SimulatedSweepOutcome outcome = run();
  sweep_.workload.seed = 99;
  SimulatedSweepOptions options;
  options.resume = outcome.sweep.directory;
  options.progress = [](std::string_view) {};
  const auto resumed = simulate_sweep(sweep_, options);
  ASSERT_FALSE(resumed.has_value());
  EXPECT_THAT(resumed.error().message, HasSubstr("not the one of the plan"));
}

TEST_F(SimulatedSweepTest, AWorkerThatComputesIsRefusedBeforeAnythingIsWritten) {
  sweep_.deployment.workers[1].cpu = spec::CpuEngineSpec{.model = "/models/m"};
  const auto outcome = try_run();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr("worker w-1 computes its model (cpu)"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out"));
}

TEST_F(SimulatedSweepTest, TheGivenFolderIsNotPartOfTheStoredSpecification) {
  SimulatedSweepOptions options;
  options.output_directory = folder_ + "/elsewhere";
  options.progress = [](std::string_view) {};
  const auto outcome = simulate_sweep(sweep_, options);
  ASSERT_TRUE(outcome.has_value());
  EXPECT_THAT(outcome->sweep.directory, HasSubstr("/elsewhere/test-"));
  EXPECT_THAT(stored(*outcome).spec_yaml, HasSubstr(sweep_.output_directory));
}

TEST_F(SimulatedSweepTest, AWorkloadThatCannotBeDrivenIsRefusedBeforeAnythingIsWritten) {
  sweep_.workload.turns_min = 0;
  const auto outcome = try_run();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, HasSubstr("turns_min"));
  EXPECT_FALSE(std::filesystem::exists(sweep_.output_directory));
}

TEST_F(SimulatedSweepTest, AnUnknownProfileIsRefusedWithTheWorkersName) {
  sweep_.deployment.workers[1].profile.emplace().gpu = "abacus";
  const auto outcome = try_run();
  ASSERT_FALSE(outcome.has_value());
  EXPECT_THAT(outcome.error().message, AllOf(HasSubstr("w-1"), HasSubstr("abacus"), HasSubstr("h200")));
}

TEST_F(SimulatedSweepTest, AnInterruptEndsItAndKeepsTheFinishedLevels) {
  std::stop_source stop;
  SimulatedSweepOptions options;
  options.threads = 1;
  options.stop = stop.get_token();
  options.progress = [&](std::string_view line) {
    if (line.find("round_robin 6: ") != std::string_view::npos) stop.request_stop();
  };
  const auto outcome = simulate_sweep(sweep_, options);
  ASSERT_TRUE(outcome.has_value());
  ASSERT_TRUE(outcome->sweep.failure.has_value());
  EXPECT_EQ(outcome->sweep.failure->code, ErrorCode::kCancelled);
  EXPECT_THAT(outcome->sweep.failure->message, HasSubstr("kv 2: interrupted"));
  EXPECT_EQ(outcome->sweep.levels_done, 2U);
  EXPECT_TRUE(outcome->sweep.files.has_value());
  EXPECT_EQ(stored(*outcome).levels.size(), 2U);
}

TEST_F(SimulatedSweepTest, WithoutAnyLevelThereIsNoReport) {
  std::stop_source stop;
  stop.request_stop();
  const SimulatedSweepOutcome outcome = run(2, stop.get_token());
  ASSERT_TRUE(outcome.sweep.failure.has_value());
  EXPECT_EQ(outcome.sweep.levels_done, 0U);
  EXPECT_FALSE(outcome.sweep.files.has_value());
}

}  // namespace
}  // namespace kvist::sweep::simulated_sweep_test

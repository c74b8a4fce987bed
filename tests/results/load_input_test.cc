#include "kvist/results/load_input.h"

#include <gmock/gmock.h>

#include <fstream>

#include "kvist/spec/files.h"
#include "kvist/spec/sweep.h"
#include "results/store_fixture.h"

namespace kvist::results::load_input_test {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class LoadInputTest : public StoreTest {
 protected:
  /// A run of two levels whose second has three turns.
  void write_recorded_run(const spec::SweepSpec& sweep) {
    auto store = Store::open(path("run.sqlite")).value();
    RunRecord head = head_of_run();
    head.spec_yaml = spec::to_yaml(sweep);
    const std::int64_t run = store->begin_run(head).value();
    LevelRecord level = full_level();
    level.started = at(1'000);
    level.turns.assign(3, {});
    for (std::uint32_t i = 0; i < 3; ++i) {
      level.turns[i].conversation = ConversationId(i / 2);
      level.turns[i].turn = i % 2;
      level.turns[i].intended = at(1'500 + i);
      level.turns[i].sent = at(2'000 + i);
    }
    level.turns[2].sent = at(0);  // no connection: it was never sent
    ASSERT_TRUE(store->add_level(run, full_level()).has_value());
    ASSERT_TRUE(store->add_level(run, level).has_value());
  }

  [[nodiscard]] spec::TraceSpec recorded(std::int64_t run, std::int64_t level) const {
    return {.file = path("run.sqlite"), .run = run, .level = level};
  }
};

spec::SweepSpec small_sweep() {
  spec::SweepSpec sweep;
  sweep.deployment.workers.resize(2);
  sweep.deployment.workers[0].name = "worker-0";
  sweep.deployment.workers[1].name = "worker-1";
  sweep.modes = {spec::RoutingMode::kRoundRobin};
  sweep.levels = {4};
  sweep.workload.max_tokens = 77;
  return sweep;
}

TEST_F(LoadInputTest, NoFileIsNothing) {
  const auto input = load_input({});
  ASSERT_TRUE(input.has_value());
  EXPECT_EQ(input->trace, nullptr);
  EXPECT_EQ(input->recorded, nullptr);
}

TEST_F(LoadInputTest, AMooncakeTraceIsLoaded) {
  std::ofstream(path("t.jsonl")) << R"({"timestamp": 5, "input_length": 6, "output_length": 7, "hash_ids": [8]})";
  const auto input = load_input({.file = path("t.jsonl")});
  ASSERT_TRUE(input.has_value()) << input.error().message;
  ASSERT_NE(input->trace, nullptr);
  EXPECT_EQ(input->trace->requests.at(0).input_tokens, 6U);
  EXPECT_EQ(load_input({.file = path("none.jsonl")}).error().code, ErrorCode::kNotFound);
}

TEST_F(LoadInputTest, TheExampleSweepReplaysItsTrace) {
  const auto sweep = spec::load_sweep(KVIST_SOURCE_DIR "/examples/traces/replay.yaml");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  const auto input = load_input(sweep->workload.trace);
  ASSERT_TRUE(input.has_value()) << input.error().message;
  EXPECT_EQ(input->trace->requests.size(), 223U);
  EXPECT_TRUE(workload::make_turn_source(sweep->workload, *input, 1, 1, TimePoint{}).has_value());
}

TEST_F(LoadInputTest, ARecordedLevelIsLoaded) {
  write_recorded_run(small_sweep());
  const auto input = load_input(recorded(0, 1));
  ASSERT_TRUE(input.has_value()) << input.error().message;
  ASSERT_NE(input->recorded, nullptr);
  const workload::RecordedLevel& level = *input->recorded;
  EXPECT_EQ(level.seed, full_level().seed);
  EXPECT_EQ(level.workload.max_tokens, 77U);
  ASSERT_EQ(level.turns.size(), 3U);
  EXPECT_EQ(level.turns[1].conversation, ConversationId(0));
  EXPECT_EQ(level.turns[1].turn, 1U);
  EXPECT_EQ(level.turns[1].sent, Duration(1'001));
  EXPECT_EQ(level.turns[2].sent, Duration(502)) << "due, though never sent";
}

TEST_F(LoadInputTest, ErrorsListTheAvailableLevels) {
  write_recorded_run(small_sweep());
  EXPECT_THAT(load_input(recorded(1, 2)).error().message, HasSubstr("run 1 has no level 2; it has 0 to 1"));
  EXPECT_EQ(load_input(recorded(3, 0)).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(load_input({.file = path("none.sqlite")}).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(path("none.sqlite")));
}

TEST_F(LoadInputTest, WhatHoldsNoResultsIsNotMadeADatabase) {
  std::ofstream(path("empty.sqlite")).flush();
  EXPECT_THAT(load_input({.file = path("empty.sqlite")}).error().message, HasSubstr("no results database"));
  EXPECT_EQ(std::filesystem::file_size(path("empty.sqlite")), 0U);
  std::filesystem::create_directory(path("folder.sqlite"));
  EXPECT_THAT(load_input({.file = path("folder.sqlite")}).error().message, HasSubstr("no results database"));
}

TEST_F(LoadInputTest, IdsOfATraceFitTheTokensThatTheyStandFor) {
  std::ofstream(path("t.jsonl")) << R"({"timestamp": 5, "input_length": 32, "output_length": 7, "hash_ids": [8, 9]})";
  EXPECT_TRUE(load_input({.file = path("t.jsonl"), .tokens_per_hash = 16}).has_value());
  EXPECT_THAT(load_input({.file = path("t.jsonl")}).error().message, HasSubstr("tokens_per_hash 16 would fit"));
}

TEST_F(LoadInputTest, AReplayIsNotReplayed) {
  spec::SweepSpec sweep = small_sweep();
  sweep.workload.trace.file = "/traces/t.jsonl";
  write_recorded_run(sweep);
  EXPECT_THAT(load_input(recorded(1, 0)).error().message, HasSubstr("replayed /traces/t.jsonl itself"));
}

}  // namespace
}  // namespace kvist::results::load_input_test

// examples/workloads: what they drive is what their files say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <sstream>

#include "kvist/spec/files.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/mix.h"

namespace kvist::workload::example_workloads_test {
namespace {

spec::WorkloadSpec example(const std::string& name) {
  auto spec = spec::load_workload(KVIST_SOURCE_DIR "/examples/workloads/" + name);
  EXPECT_TRUE(spec.has_value()) << spec.error().message;
  spec->target_rps = 0;
  return *std::move(spec);
}

std::vector<StartTurn> first_turns(const spec::WorkloadSpec& spec, LoadInput input = {}) {
  auto source = make_turn_source(spec, input, 2'000, 5, TimePoint{});
  EXPECT_TRUE(source.has_value()) << source.error().message;
  return (*source)->poll(TimePoint{});
}

double mean(const std::vector<StartTurn>& turns, auto value) {
  return std::accumulate(turns.begin(), turns.end(), 0.0,
                         [&](double sum, const StartTurn& turn) { return sum + static_cast<double>(value(turn)); }) /
         static_cast<double>(turns.size());
}

std::size_t prompt_of(const StartTurn& turn) {
  return turn.messages.back().content.size();  // a token is a character
}
std::uint32_t answer_of(const StartTurn& turn) {
  return turn.max_tokens;
}

TEST(ExampleWorkloads, SummariesReadMuchAndSayLittle) {
  const spec::WorkloadSpec spec = example("summaries.yaml");
  EXPECT_EQ(spec.turns_max, 1U);
  const std::vector<StartTurn> turns = first_turns(spec);
  ASSERT_EQ(turns.size(), 2'000U);
  for (const StartTurn& turn : turns) {
    EXPECT_GE(prompt_of(turn), 800U);
    EXPECT_LE(prompt_of(turn), 12'000U);
    EXPECT_GE(answer_of(turn), 60U);
    EXPECT_LE(answer_of(turn), 400U);
  }
  EXPECT_NEAR(mean(turns, prompt_of), 4'000, 400);
  EXPECT_NEAR(mean(turns, answer_of), 200, 10);
  EXPECT_NE(turns[0].messages.back().content.substr(0, 200), turns[1].messages.back().content.substr(0, 200));
}

TEST(ExampleWorkloads, ReasoningAsksLittleAndIsAnsweredAtLength) {
  const spec::WorkloadSpec spec = example("reasoning.yaml");
  const std::vector<StartTurn> turns = first_turns(spec);
  EXPECT_NEAR(mean(turns, prompt_of), 180, 25);
  EXPECT_NEAR(mean(turns, answer_of), 2'500, 300);
  EXPECT_GT(mean(turns, answer_of), 8 * mean(turns, prompt_of));
  // Every fourth conversation has a second turn.
  auto source = make_turn_source(spec, {}, 2'000, 5, TimePoint{});
  const std::vector<StartTurn> begun = (*source)->poll(TimePoint{});
  const auto goes_on = std::ranges::count_if(begun, [&](const StartTurn& turn) {
    const auto next = (*source)->on_turn_finished(turn.conversation, "r", TurnOutcome::kSucceeded, TimePoint{});
    return !next.empty() && next[0].turn == 1;
  });
  EXPECT_NEAR(static_cast<double>(goes_on), 500, 80);
}

TEST(ExampleWorkloads, TheirCommandsNameTheTargetAsLoadgenDoes) {
  for (const char* name : {"chat.yaml", "summaries.yaml", "reasoning.yaml"}) {
    std::ostringstream text;
    text << std::ifstream(KVIST_SOURCE_DIR "/examples/workloads/" + std::string(name)).rdbuf();
    EXPECT_THAT(text.str(), testing::HasSubstr("kvist loadgen --target http://")) << name;
  }
}

TEST(ExampleWorkloads, TheyCanBeMixed) {
  auto parts = std::make_shared<std::vector<WorkloadPart>>();
  for (const auto& [weight, name] :
       {std::pair{3.0, "chat.yaml"}, std::pair{1.0, "summaries.yaml"}, std::pair{1.0, "reasoning.yaml"}}) {
    WorkloadPart part{.weight = weight};
    part.spec = example(name);
    parts->push_back(std::move(part));
  }
  spec::WorkloadSpec load;
  load.target_rps = 0;
  const std::vector<StartTurn> turns = first_turns(load, {.trace = nullptr, .recorded = nullptr, .mix = parts});
  const auto reasoning = std::ranges::count_if(
      turns, [](const StartTurn& turn) { return prompt_of(turn) < 900 && answer_of(turn) > 400; });
  EXPECT_NEAR(static_cast<double>(reasoning), 400, 70);  // the reasoning fifth
}

}  // namespace
}  // namespace kvist::workload::example_workloads_test

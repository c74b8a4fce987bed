#include "kvist/workload/mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "kvist/workload/load_driver.h"
#include "kvist/workload/load_input.h"

namespace kvist::workload::mix_test {
namespace {

using ::testing::HasSubstr;

WorkloadPart part(double weight, std::uint32_t first_message, std::uint32_t answer) {
  WorkloadPart part{.weight = weight};
  part.spec.starters = 0;
  part.spec.starter_tokens_min = part.spec.starter_tokens_max = first_message;
  part.spec.turns_min = part.spec.turns_max = 2;
  part.spec.max_tokens = answer;
  part.spec.ignore_eos = answer == 20;
  return part;
}

TEST(Mix, ConversationsAreDividedByWeightAndKeepTheirPart) {
  const auto parts = std::make_shared<const std::vector<WorkloadPart>>(std::vector{part(3, 100, 10), part(1, 200, 20)});
  spec::WorkloadSpec load;
  load.target_rps = 0;
  const auto source =
      make_turn_source(load, {.trace = nullptr, .recorded = nullptr, .mix = parts}, 2'000, 5, TimePoint{});
  ASSERT_TRUE(source.has_value()) << source.error().message;
  std::map<std::uint32_t, std::size_t> answers;
  const std::vector<StartTurn> turns = (*source)->poll(TimePoint{});
  ASSERT_EQ(turns.size(), 2'000U);
  for (const StartTurn& turn : turns) {
    ++answers[turn.max_tokens];
    EXPECT_EQ(turn.messages[0].content.size(), turn.max_tokens * 10);
    EXPECT_EQ(turn.ignore_eos, turn.max_tokens == 20);
  }
  EXPECT_NEAR(static_cast<double>(answers[20]), 500, 60);
  for (const StartTurn& turn : turns) {
    const auto next = (*source)->on_turn_finished(turn.conversation, "r", TurnOutcome::kSucceeded, TimePoint{});
    ASSERT_EQ(next.size(), 1U);
    EXPECT_EQ(next[0].max_tokens, turn.max_tokens);
    EXPECT_EQ(next[0].ignore_eos, turn.ignore_eos);
  }
}

TEST(Mix, OfOnePartIsThatWorkload) {
  const std::vector<WorkloadPart> parts = {part(7, 100, 10)};
  LoadDriver alone(parts[0].spec, 3, 9, TimePoint{});
  LoadDriver mixed(parts[0].spec, 3, 9, TimePoint{}, nullptr, std::make_shared<const std::vector<WorkloadPart>>(parts));
  const auto a = alone.poll(TimePoint{} + std::chrono::seconds(1));
  const auto b = mixed.poll(TimePoint{} + std::chrono::seconds(1));
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].messages[0].content, b[i].messages[0].content);
}

TEST(Mix, IsChecked) {
  EXPECT_THAT(check_mix({}).error().message, HasSubstr("no workload"));
  EXPECT_THAT(check_mix({part(1, 9, 9), part(0, 9, 9)}).error().message, HasSubstr("workload 2: weight is 0"));
  EXPECT_FALSE(check_mix({part(std::numeric_limits<double>::quiet_NaN(), 9, 9)}).has_value());
  EXPECT_THAT(check_mix({part(1, 9, 0)}).error().message, HasSubstr("mix: workload 1: workload: max_tokens is 0"));
}

}  // namespace
}  // namespace kvist::workload::mix_test

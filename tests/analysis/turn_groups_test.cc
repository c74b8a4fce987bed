#include "kvist/analysis/turn_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "analysis/sample_run.h"

namespace kvist::analysis::turn_groups_test {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

workload::TurnSample turn(std::uint32_t number, std::int64_t ttft_ms, std::uint32_t prompt, std::uint32_t cached) {
  workload::TurnSample sample = turn_sent_at(6'000, ttft_ms, {20});
  sample.turn = number;
  sample.prompt_tokens = prompt;
  sample.cached_tokens = cached;
  return sample;
}

results::LevelRecord level_of(std::vector<workload::TurnSample> turns) {
  results::LevelRecord level;
  level.measure_from = at_ms(5'000);
  level.measure_to = at_ms(9'000);
  level.turns = std::move(turns);
  return level;
}

TEST(TurnGroups, TurnsAreGroupedByNumberAndByPowersOfTwoOfTheirPrompts) {
  const results::LevelRecord level = level_of({turn(0, 100, 255, 0), turn(0, 300, 256, 0), turn(1, 50, 511, 300),
                                               turn(9, 10, 512, 512), turn(400, 30, 300'000, 100'000)});
  constexpr std::uint32_t kNoEnd = std::numeric_limits<std::uint32_t>::max();
  const std::vector<TurnGroup> turns = groups_by_turn(level);
  ASSERT_EQ(turns.size(), 3U);
  EXPECT_EQ(turns[0], (TurnGroup{.from = 0,
                                 .to = 0,
                                 .turns = 2,
                                 .ttft_p50_ms = 200,
                                 .ttft_p95_ms = 290,
                                 .tpot_p50_ms = 20,
                                 .hit_rate_pct = 0}));
  EXPECT_EQ(turns[2].from, 9U);
  EXPECT_EQ(turns[2].to, kNoEnd);
  EXPECT_EQ(turns[2].turns, 2U);
  EXPECT_THAT(groups_by_prompt(level), ElementsAre(Field(&TurnGroup::to, 255), Field(&TurnGroup::to, 511),
                                                   Field(&TurnGroup::to, 1'023), Field(&TurnGroup::to, kNoEnd)));
  EXPECT_NEAR(groups_by_prompt(level)[1].hit_rate_pct.value(), 100.0 * 300 / (256 + 511), 1e-9);
}

TEST(TurnGroups, WhatIsNotInThePercentilesIsInNoGroup) {
  std::vector<workload::TurnSample> turns = {turn(0, 100, 10, 0), turn(1, 100, 10, 0), turn(2, 100, 0, 0)};
  turns[0].sent = at_ms(4'999);
  turns[1].outcome = workload::TurnOutcome::kFailed;
  const results::LevelRecord level = level_of(turns);
  EXPECT_THAT(groups_by_turn(level), ElementsAre(Field(&TurnGroup::from, 2)));
  EXPECT_FALSE(groups_by_turn(level)[0].hit_rate_pct.has_value()) << "without usage it is not known";
  EXPECT_THAT(groups_by_prompt(level), IsEmpty());
}

TEST(TurnGroups, RepetitionsAreMeansOverThoseThatHaveTheGroup) {
  TurnGroup first{.from = 0, .to = 0, .turns = 2, .ttft_p50_ms = 10, .tpot_p50_ms = {}, .hit_rate_pct = 50};
  const std::vector<TurnGroup> one = {first};
  first.turns = 4;
  first.ttft_p50_ms = 30;
  first.hit_rate_pct.reset();
  TurnGroup second = first;
  second.from = second.to = 1;
  second.turns = 1;
  second.ttft_p50_ms = 7;
  const std::vector<TurnGroup> other = {first, second};
  const std::vector<const std::vector<TurnGroup>*> both = {&one, &other};
  const std::vector<TurnGroup> merged = merge_groups(both);
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[0].turns, 6U);
  EXPECT_DOUBLE_EQ(merged[0].ttft_p50_ms, 20);
  EXPECT_DOUBLE_EQ(merged[0].hit_rate_pct.value(), 50);
  EXPECT_DOUBLE_EQ(merged[1].ttft_p50_ms, 7);
}

}  // namespace
}  // namespace kvist::analysis::turn_groups_test

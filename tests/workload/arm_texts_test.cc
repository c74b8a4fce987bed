#include "kvist/workload/arm_texts.h"

#include <gtest/gtest.h>

#include "kvist/workload/load_input.h"

namespace kvist::workload::arm_texts_test {
namespace {

spec::WorkloadSpec chats() {
  spec::WorkloadSpec spec;
  spec.turns_min = spec.turns_max = 2;
  spec.starters = 1;
  spec.starter_tokens_min = spec.starter_tokens_max = 100;
  spec.max_tokens = 30;
  spec.target_rps = 0;
  return spec;
}

std::unique_ptr<TurnSource> source(ArmTexts texts) {
  LoadInput input;
  input.texts = std::move(texts);
  return std::move(*make_turn_source(chats(), input, 2, 7, TimePoint{}));
}

TEST(ArmTexts, AnOpeningIsInFrontOfEveryConversationAndOfAllItsTurns) {
  const auto plain = source({});
  const auto changed = source({.opening = opening_of(5)});
  EXPECT_EQ(opening_of(5).size(), kOpeningBytes);
  EXPECT_NE(opening_of(5), opening_of(6));
  const std::vector<StartTurn> before = plain->poll(TimePoint{});
  const std::vector<StartTurn> after = changed->poll(TimePoint{});
  ASSERT_EQ(before.size(), 2U);
  ASSERT_EQ(after.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(after[i].messages[0].content, opening_of(5) + before[i].messages[0].content);
    EXPECT_EQ(after[i].seed, before[i].seed);
  }
  const auto next = changed->on_turn_finished(after[0].conversation, "live", TurnOutcome::kSucceeded, TimePoint{});
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].messages[0].content, after[0].messages[0].content) << "not once more";
  EXPECT_EQ(next[0].messages[1].content, "live");
}

TEST(ArmTexts, FrozenRepliesAreTheSameWhateverTheTargetSays) {
  const auto one = source({.frozen_replies = true});
  const auto other = source({.frozen_replies = true});
  const ConversationId id = one->poll(TimePoint{})[0].conversation;
  (void)other->poll(TimePoint{});
  const auto first = one->on_turn_finished(id, "short", TurnOutcome::kSucceeded, TimePoint{});
  const auto second = other->on_turn_finished(id, "quite another answer", TurnOutcome::kSucceeded, TimePoint{});
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(first[0].messages[1].content, second[0].messages[1].content);
  EXPECT_EQ(first[0].messages[1].content, frozen_reply(7, id, 0, 30));
  EXPECT_EQ(first[0].messages[1].content.size(), 30U);
  EXPECT_NE(frozen_reply(7, id, 0, 30), frozen_reply(7, id, 1, 30));
}

TEST(ArmTexts, AFailedTurnEndsItsConversationAsWithoutThem) {
  const auto frozen = source({.frozen_replies = true});
  const auto started = frozen->poll(TimePoint{});
  const auto next = frozen->on_turn_finished(started[0].conversation, "", TurnOutcome::kFailed, TimePoint{});
  ASSERT_EQ(next.size(), 1U) << "another conversation has its place";
  EXPECT_EQ(next[0].turn, 0U);
  frozen->stop();
  EXPECT_TRUE(frozen->stopped());
  EXPECT_EQ(frozen->in_flight(), 2U);
}

}  // namespace
}  // namespace kvist::workload::arm_texts_test

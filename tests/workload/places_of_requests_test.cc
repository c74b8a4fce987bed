// A closed loop whose places are of requests: who thinks leaves the place to others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kvist/workload/load_driver.h"

namespace kvist::workload::places_of_requests_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(50)};
constexpr Duration kThink = seconds(1);

spec::WorkloadSpec chats(double max_start_rate = 0) {
  spec::WorkloadSpec spec;
  spec.turns_min = spec.turns_max = 3;
  spec.starter_tokens_min = spec.starter_tokens_max = 20;
  spec.target_rps = max_start_rate;
  return spec;
}

ThinkTime thinking(Duration pause = kThink) {
  return {.least = pause, .most = pause, .frees_place = true};
}

/// Answers take a time that follows from the conversation.
struct Played {
  std::vector<StartTurn> started;
  std::vector<std::uint32_t> in_flight;  // after each step
};
Played play(LoadDriver& driver, Duration answer, Duration until) {
  Played played;
  std::map<TimePoint, std::vector<ConversationId>> ends;
  const auto take = [&](std::vector<StartTurn> turns, TimePoint now) {
    for (StartTurn& turn : turns) {
      ends[now + answer + milliseconds(turn.conversation.value() % 7)].push_back(turn.conversation);
      played.started.push_back(std::move(turn));
    }
    played.in_flight.push_back(driver.in_flight());
  };
  for (TimePoint now = kStart; now < kStart + until;) {
    if (!ends.empty() && ends.begin()->first <= now) {
      const std::vector<ConversationId> ended = ends.begin()->second;
      ends.erase(ends.begin());
      for (const ConversationId id : ended) take(driver.on_turn_finished(id, "yes", TurnOutcome::kSucceeded, now), now);
      continue;
    }
    const auto wakeup = driver.next_wakeup();
    if (wakeup && *wakeup <= now) {
      take(driver.poll(now), now);
      continue;
    }
    TimePoint next = kStart + until;
    if (wakeup) next = std::min(next, *wakeup);
    if (!ends.empty()) next = std::min(next, ends.begin()->first);
    now = std::max(now + Duration(1), next);
  }
  return played;
}

TEST(PlacesOfRequests, SoManyRequestsAreInFlightHoweverManyUsersThink) {
  LoadDriver driver(chats(), 4, 1, kStart, nullptr, nullptr, thinking());
  const Played played = play(driver, milliseconds(100), seconds(10));
  EXPECT_TRUE(std::ranges::all_of(played.in_flight, [](std::uint32_t n) { return n <= 4; }));
  // 4 places x 10 s / about 103 ms of an answer; none is idle.
  EXPECT_NEAR(static_cast<double>(played.started.size()), 4 * 10 / 0.103, 10);
  const auto follow_ups = std::ranges::count_if(played.started, [](const StartTurn& turn) { return turn.turn > 0; });
  EXPECT_GT(follow_ups, 200);
  for (const StartTurn& turn : played.started) {
    EXPECT_GE(turn.ready_or_intended(), turn.intended);
  }
}

TEST(PlacesOfRequests, PlacesOfConversationsStayTakenWhileTheirUsersThink) {
  ThinkTime pause = thinking();
  pause.frees_place = false;
  LoadDriver driver(chats(), 4, 1, kStart, nullptr, nullptr, pause);
  const Played played = play(driver, milliseconds(100), seconds(10));
  EXPECT_LT(played.started.size(), 70U);
}

TEST(PlacesOfRequests, WhoHasThoughtLongestGoesOnBeforeAnotherBegins) {
  LoadDriver driver(chats(), 1, 1, kStart, nullptr, nullptr, thinking(milliseconds(10)));
  ASSERT_EQ(driver.poll(kStart).size(), 1U);
  auto next = driver.on_turn_finished(ConversationId(0), "a", TurnOutcome::kSucceeded, kStart + milliseconds(100));
  ASSERT_EQ(next.size(), 1U);  // 0 thinks, so 1 begins
  EXPECT_EQ(next[0].conversation, ConversationId(1));
  EXPECT_FALSE(driver.next_wakeup().has_value());  // no place
  EXPECT_TRUE(driver.poll(kStart + milliseconds(150)).empty());
  next = driver.on_turn_finished(ConversationId(1), "a", TurnOutcome::kSucceeded, kStart + milliseconds(200));
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].conversation, ConversationId(0));
  EXPECT_EQ(next[0].turn, 1U);
  EXPECT_EQ(next[0].intended, kStart + milliseconds(110));  // when its user had thought
  EXPECT_EQ(next[0].ready, kStart + milliseconds(200));     // when a place was free
  EXPECT_EQ(driver.in_flight(), 1U);
}

/// Three starts a second, two places; conversation 0 has thought `pause` after 0.1 s, and the loop comes back at 0.6 s.
std::vector<std::uint64_t> order_of_a_late_loop(Duration pause) {
  LoadDriver driver(chats(3), 2, 1, kStart, nullptr, nullptr, thinking(pause));
  EXPECT_EQ(driver.poll(kStart).size(), 1U);
  EXPECT_TRUE(
      driver.on_turn_finished(ConversationId(0), "a", TurnOutcome::kSucceeded, kStart + milliseconds(100)).empty());
  std::vector<std::uint64_t> order;
  for (const StartTurn& turn : driver.poll(kStart + milliseconds(600))) order.push_back(turn.conversation.value());
  return order;
}

TEST(PlacesOfRequests, HowLateTheLoopIsDoesNotDecideWhoIsFirst) {
  EXPECT_EQ(order_of_a_late_loop(milliseconds(100)), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(order_of_a_late_loop(milliseconds(400)), (std::vector<std::uint64_t>{1, 0}));
}

TEST(PlacesOfRequests, ThoseAliveAreBounded) {
  LoadDriver driver(chats(), 1, 1, kStart, nullptr, nullptr, thinking(seconds(100'000)));
  TimePoint now = kStart;
  std::vector<StartTurn> turns = driver.poll(now);
  std::uint64_t begun = 0;
  while (!turns.empty()) {
    ASSERT_EQ(turns.size(), 1U);
    ++begun;
    now += milliseconds(1);
    turns = driver.on_turn_finished(turns[0].conversation, "a", TurnOutcome::kSucceeded, now);
  }
  EXPECT_EQ(begun, 1'000U);
  EXPECT_EQ(driver.in_flight(), 0U);
  ASSERT_TRUE(driver.next_wakeup().has_value());  // when the first has thought
  EXPECT_EQ(*driver.next_wakeup(), kStart + milliseconds(1) + seconds(100'000));
  EXPECT_EQ(driver.poll(*driver.next_wakeup()).size(), 1U);
}

TEST(PlacesOfRequests, AStopForgetsThoseWhoThink) {
  LoadDriver driver(chats(), 2, 1, kStart, nullptr, nullptr, thinking());
  ASSERT_EQ(driver.poll(kStart).size(), 2U);
  ASSERT_EQ(driver.on_turn_finished(ConversationId(0), "a", TurnOutcome::kSucceeded, kStart + milliseconds(5)).size(),
            1U);
  driver.stop();
  EXPECT_EQ(driver.in_flight(), 2U);
  EXPECT_TRUE(
      driver.on_turn_finished(ConversationId(1), "a", TurnOutcome::kSucceeded, kStart + milliseconds(6)).empty());
  EXPECT_TRUE(
      driver.on_turn_finished(ConversationId(2), "a", TurnOutcome::kSucceeded, kStart + milliseconds(6)).empty());
  EXPECT_EQ(driver.in_flight(), 0U);
  EXPECT_FALSE(driver.next_wakeup().has_value());
}

}  // namespace
}  // namespace kvist::workload::places_of_requests_test

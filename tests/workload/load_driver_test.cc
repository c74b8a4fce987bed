#include "kvist/workload/load_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

namespace kvist::workload::load_driver_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(50)};

spec::WorkloadSpec small_workload() {
  spec::WorkloadSpec spec;
  spec.starter_tokens_min = 50;
  spec.starter_tokens_max = 80;
  spec.turns_min = spec.turns_max = 3;
  spec.target_rps = 10;
  spec.max_tokens = 77;
  return spec;
}

/// Polls at every wake-up up to `until` and returns what was started.
std::vector<StartTurn> run_until(LoadDriver& driver, TimePoint until) {
  std::vector<StartTurn> started;
  while (driver.next_wakeup() && *driver.next_wakeup() <= until) {
    std::vector<StartTurn> more = driver.poll(*driver.next_wakeup());
    std::move(more.begin(), more.end(), std::back_inserter(started));
  }
  return started;
}

TEST(LoadDriver, StartsTenConversationsInTheFirstSecondAtTenPerSecond) {
  LoadDriver driver(small_workload(), 100, 1, kStart);
  const std::vector<StartTurn> started = run_until(driver, kStart + seconds(1) - Duration(1));
  ASSERT_EQ(started.size(), 10U);
  for (std::size_t i = 0; i < started.size(); ++i) {
    EXPECT_EQ(started[i].conversation, ConversationId(i));
    EXPECT_EQ(started[i].turn, 0U);
    EXPECT_EQ(started[i].max_tokens, 77U);
    EXPECT_EQ(started[i].messages.size(), 1U);
    EXPECT_EQ(started[i].intended, kStart + milliseconds(100) * static_cast<int>(i));
  }
  EXPECT_EQ(driver.in_flight(), 10U);
}

TEST(LoadDriver, NeverExceedsTheLimitOfConversations) {
  LoadDriver driver(small_workload(), 4, 1, kStart);
  EXPECT_EQ(run_until(driver, kStart + seconds(100)).size(), 4U);
  EXPECT_EQ(driver.in_flight(), 4U);
  EXPECT_FALSE(driver.next_wakeup().has_value());
}

TEST(LoadDriver, RaisingTheLimitAddsConversations) {
  LoadDriver driver(small_workload(), 4, 1, kStart);
  EXPECT_EQ(run_until(driver, kStart + seconds(100)).size(), 4U);
  ASSERT_TRUE(driver.raise(6, kStart + seconds(100)));
  const std::vector<StartTurn> added = driver.poll(kStart + seconds(100));
  ASSERT_EQ(added.size(), 2U);
  EXPECT_EQ(added[0].conversation, ConversationId(4));
  EXPECT_EQ(added[0].intended, kStart + seconds(100));
  EXPECT_EQ(driver.in_flight(), 6U);
  // Running conversations continue with their next turn.
  EXPECT_EQ(driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, kStart + seconds(101)).size(), 1U);
  EXPECT_EQ(driver.raise(5, kStart + seconds(102)).error().code, ErrorCode::kInvalidArgument);
}

TEST(LoadDriver, FewerAtOnceLetsConversationsEndAndMoreStartAtOnce) {
  spec::WorkloadSpec spec = small_workload();
  spec.target_rps = 0;
  spec.turns_min = spec.turns_max = 2;
  LoadDriver driver(spec, 4, 1, kStart);
  ASSERT_EQ(driver.poll(kStart).size(), 4U);
  ASSERT_TRUE(driver.change({.concurrency = 1}, kStart + seconds(1)));
  for (std::uint64_t id = 0; id < 4; ++id) {  // each has its second turn still
    ASSERT_EQ(driver.on_turn_finished(ConversationId(id), "r", TurnOutcome::kSucceeded, kStart + seconds(2)).size(),
              1U);
  }
  for (std::uint64_t id = 0; id < 3; ++id) {
    EXPECT_TRUE(driver.on_turn_finished(ConversationId(id), "r", TurnOutcome::kSucceeded, kStart + seconds(3)).empty());
  }
  EXPECT_EQ(driver.in_flight(), 1U);
  const std::vector<StartTurn> next =
      driver.on_turn_finished(ConversationId(3), "r", TurnOutcome::kSucceeded, kStart + seconds(4));
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].conversation, ConversationId(4));
  ASSERT_TRUE(driver.change({.concurrency = 3}, kStart + seconds(5)));
  const std::vector<StartTurn> added = driver.poll(kStart + seconds(5));
  ASSERT_EQ(added.size(), 2U);
  EXPECT_EQ(added[0].intended, kStart + seconds(5));
}

TEST(LoadDriver, AChangeThatTheLoadDoesNotHaveIsRefusedAndChangesNothing) {
  LoadDriver closed(small_workload(), 4, 1, kStart);
  EXPECT_EQ(closed.change({}, kStart).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(closed.change({.concurrency = 0}, kStart).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(closed.change({.concurrency = 9, .rate = 2}, kStart).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(run_until(closed, kStart + seconds(100)).size(), 4U);
  spec::WorkloadSpec spec = small_workload();
  spec.arrivals.kind = spec::ArrivalKind::kConstant;
  LoadDriver open(spec, 60, 1, kStart);
  EXPECT_EQ(open.change({.concurrency = 9}, kStart).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(open.change({.rate = 0}, kStart).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(open.poll(kStart).size(), 1U);
  ASSERT_TRUE(open.change({.rate = 10}, kStart));
  EXPECT_EQ(run_until(open, kStart + seconds(1)).size(), 10U);
}

TEST(LoadDriver, AnArrivalThatWaitsIsReadyWhenItsPlaceIsFree) {
  spec::WorkloadSpec spec = small_workload();
  spec.turns_min = spec.turns_max = 1;
  spec.arrivals.kind = spec::ArrivalKind::kConstant;
  spec.arrivals.max_conversations = 1;
  spec.arrivals.when_full = spec::WhenFull::kWait;
  LoadDriver driver(spec, 60, 1, kStart);
  EXPECT_EQ(driver.poll(kStart).at(0).ready_or_intended(), kStart);
  const auto late = driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, kStart + seconds(5));
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].intended, kStart + seconds(1));
  EXPECT_EQ(late[0].ready_or_intended(), kStart + seconds(5));
}

TEST(LoadDriver, TextsMadeBeforeAreThoseOfTheLoad) {
  spec::WorkloadSpec spec = small_workload();
  spec.prefix_groups = 3;
  spec.prefix_tokens = 40;
  LoadDriver made(spec, 4, 5, kStart);
  const LoadTexts texts = make_texts(spec, 5, nullptr, nullptr);
  LoadDriver given(spec, 4, 5, kStart, texts, {});
  LoadDriver again(spec, 4, 5, kStart + seconds(1), texts, {});
  EXPECT_EQ(texts.use_count(), 3);  // they are used, and not made again
  const auto a = made.poll(kStart + seconds(9));
  const auto b = given.poll(kStart + seconds(9));
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].messages[0].content, b[i].messages[0].content);
}

TEST(LoadDriver, OpenArrivalsCannotBeRaised) {
  spec::WorkloadSpec spec = small_workload();
  spec.arrivals.kind = spec::ArrivalKind::kPoisson;
  LoadDriver driver(spec, 60, 1, kStart);
  EXPECT_EQ(driver.raise(120, kStart).error().code, ErrorCode::kUnsupported);
}

TEST(LoadDriver, TheNextTurnFollowsTheReplyAtOnceAndCarriesIt) {
  LoadDriver driver(small_workload(), 1, 1, kStart);
  const std::vector<StartTurn> first = driver.poll(kStart);
  ASSERT_EQ(first.size(), 1U);
  const TimePoint replied = kStart + milliseconds(730);
  const std::vector<StartTurn> second =
      driver.on_turn_finished(first[0].conversation, "the reply", TurnOutcome::kSucceeded, replied);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].conversation, first[0].conversation);
  EXPECT_EQ(second[0].turn, 1U);
  EXPECT_EQ(second[0].intended, replied);
  ASSERT_EQ(second[0].messages.size(), 3U);
  EXPECT_EQ(second[0].messages[0].content, first[0].messages[0].content);
  EXPECT_EQ(second[0].messages[1].content, "the reply");
  EXPECT_NE(second[0].seed, first[0].seed);
}

TEST(LoadDriver, EveryTurnTellsWhetherItRunsToItsLimit) {
  for (const bool ignored : {false, true}) {
    spec::WorkloadSpec workload = small_workload();
    workload.ignore_eos = ignored;
    LoadDriver driver(workload, 1, 1, kStart);
    const std::vector<StartTurn> first = driver.poll(kStart);
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].ignore_eos, ignored);
    const auto second = driver.on_turn_finished(first[0].conversation, "r", TurnOutcome::kSucceeded, kStart);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].ignore_eos, ignored);
  }
}

TEST(LoadDriver, AFinishedConversationMakesRoomForTheNext) {
  LoadDriver driver(small_workload(), 1, 1, kStart);
  (void)driver.poll(kStart);
  TimePoint now = kStart;
  for (int turn = 0; turn < 2; ++turn) {
    now += milliseconds(20);
    ASSERT_EQ(driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, now).size(), 1U);
  }
  // Finished after 60 ms: the place is free, but the next slot is at 100 ms.
  now += milliseconds(20);
  EXPECT_TRUE(driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, now).empty());
  EXPECT_EQ(driver.in_flight(), 0U);
  EXPECT_EQ(driver.next_wakeup(), kStart + milliseconds(100));
  const std::vector<StartTurn> next = driver.poll(kStart + milliseconds(100));
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].conversation, ConversationId(1));
}

TEST(LoadDriver, AFailedTurnEndsItsConversation) {
  LoadDriver driver(small_workload(), 1, 1, kStart);
  (void)driver.poll(kStart);
  // At 1 s the next slot is overdue, so the next conversation takes the place at once.
  const TimePoint failed = kStart + seconds(1);
  const std::vector<StartTurn> next = driver.on_turn_finished(ConversationId(0), "", TurnOutcome::kFailed, failed);
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].conversation, ConversationId(1));
  EXPECT_EQ(next[0].turn, 0U);
  EXPECT_EQ(next[0].intended, failed);
}

TEST(LoadDriver, AFailingTargetIsNotFloodedWithRetries) {
  LoadDriver driver(small_workload(), 5, 1, kStart);
  while (driver.next_wakeup() && *driver.next_wakeup() < kStart + seconds(10)) {
    const TimePoint now = *driver.next_wakeup();
    std::vector<StartTurn> open = driver.poll(now);
    while (!open.empty()) {
      const ConversationId id = open.back().conversation;
      open.pop_back();
      std::vector<StartTurn> more = driver.on_turn_finished(id, "", TurnOutcome::kFailed, now);
      std::move(more.begin(), more.end(), std::back_inserter(open));
    }
  }
  EXPECT_EQ(driver.conversations_started(), 100U);  // the target rate, no more
}

TEST(LoadDriver, IsExhaustedWhenTheProfileIsOverAndAllAreAtTheirLastTurn) {
  spec::WorkloadSpec spec = small_workload();
  spec.turns_min = spec.turns_max = 2;
  spec.arrivals.kind = spec::ArrivalKind::kConstant;
  spec.arrivals.profile = {{.at = seconds(1), .share = 1}, {.at = seconds(1), .share = 0}};
  LoadDriver driver(spec, 60, 1, kStart);  // at 0 and 1 s
  EXPECT_FALSE(driver.is_exhausted());
  EXPECT_EQ(run_until(driver, kStart + seconds(10)).size(), 2U);
  EXPECT_FALSE(driver.is_exhausted());  // both have a second turn
  (void)driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, kStart + seconds(11));
  EXPECT_FALSE(driver.is_exhausted());
  (void)driver.on_turn_finished(ConversationId(1), "", TurnOutcome::kFailed, kStart + seconds(11));
  EXPECT_TRUE(driver.is_exhausted());
  EXPECT_EQ(driver.in_flight(), 1U);
}

TEST(LoadDriver, TheNextTurnWaitsForItsThinkTime) {
  LoadDriver driver(small_workload(), 1, 1, kStart, nullptr, nullptr, {.least = seconds(2), .most = seconds(6)});
  ASSERT_EQ(driver.poll(kStart).size(), 1U);
  EXPECT_TRUE(driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, kStart + seconds(1)).empty());
  EXPECT_EQ(driver.in_flight(), 0U);
  ASSERT_TRUE(driver.next_wakeup().has_value());
  const TimePoint due = *driver.next_wakeup();
  EXPECT_GE(due, kStart + seconds(3));
  EXPECT_LE(due, kStart + seconds(7));
  EXPECT_TRUE(driver.poll(due - Duration(1)).empty());
  const std::vector<StartTurn> next = driver.poll(due + seconds(1));  // late, and due all the same
  ASSERT_EQ(next.size(), 1U);
  EXPECT_EQ(next[0].turn, 1U);
  EXPECT_EQ(next[0].intended, due);
  EXPECT_EQ(driver.in_flight(), 1U);
  EXPECT_TRUE(driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, due + seconds(2)).empty());
  driver.stop();  // its user goes without the third turn
  EXPECT_EQ(driver.in_flight(), 0U);
  EXPECT_FALSE(driver.next_wakeup().has_value());
  EXPECT_TRUE(driver.poll(due + seconds(100)).empty());
}

TEST(LoadDriver, ThinkTimesFollowFromTheSeed) {
  const ThinkTime time{.least = seconds(1), .most = seconds(5)};
  EXPECT_EQ(time.before(3, ConversationId(4), 1), time.before(3, ConversationId(4), 1));
  EXPECT_NE(time.before(3, ConversationId(4), 1), time.before(3, ConversationId(4), 2));
  EXPECT_EQ((ThinkTime{.least = seconds(2), .most = seconds(2)}.before(3, ConversationId(4), 1)), seconds(2));
}

TEST(LoadDriver, NothingStartsAfterStop) {
  LoadDriver driver(small_workload(), 3, 1, kStart);
  ASSERT_EQ(driver.poll(kStart + seconds(1)).size(), 3U);
  driver.stop();
  EXPECT_TRUE(driver.poll(kStart + seconds(100)).empty());
  EXPECT_FALSE(driver.next_wakeup().has_value());
  EXPECT_EQ(driver.in_flight(), 3U);
  const TimePoint later = kStart + seconds(2);
  EXPECT_TRUE(driver.on_turn_finished(ConversationId(0), "r", TurnOutcome::kSucceeded, later).empty());
  EXPECT_TRUE(driver.on_turn_finished(ConversationId(1), "", TurnOutcome::kFailed, later).empty());
  EXPECT_TRUE(driver.on_turn_finished(ConversationId(2), "", TurnOutcome::kAbandoned, later).empty());
  EXPECT_EQ(driver.in_flight(), 0U);
  EXPECT_EQ(driver.conversations_started(), 3U);
  EXPECT_FALSE(driver.next_wakeup().has_value());
}

TEST(CheckWorkload, ErrorsNameTheField) {
  EXPECT_TRUE(check_workload(spec::WorkloadSpec{}).has_value());
  const auto refused = [](auto change) {
    spec::WorkloadSpec spec;
    change(spec);
    const Result<void> result = check_workload(spec);
    return result ? std::string("accepted") : result.error().message;
  };
  using Spec = spec::WorkloadSpec;
  EXPECT_NE(refused([](Spec& s) { s.turns_min = 6; }).find("turns_min is 6"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.arrivals.variation = 0.01; }).find("arrival_variation"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.arrivals.max_conversations = 0; }).find("max_conversations"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.starter_tokens_min = 0; }).find("starter_tokens_min"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.follow_up_tokens_max = 1; }).find("follow_up_tokens_max"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.arrivals.burst_size = 0; }).find("burst_size"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.max_tokens_min = 5'000; }).find("max_tokens_min"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.max_tokens = 0; }).find("max_tokens"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.target_rps = -1; }).find("target_rps"), std::string::npos);
  EXPECT_NE(refused([](Spec& s) { s.request_timeout = Duration(0); }).find("request_timeout"), std::string::npos);
}

}  // namespace
}  // namespace kvist::workload::load_driver_test

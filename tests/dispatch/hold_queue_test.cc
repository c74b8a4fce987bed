#include "kvist/dispatch/hold_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace kvist::dispatch::hold_queue_test {
namespace {

using std::chrono::seconds;

class HoldQueueTest : public testing::Test {
 protected:
  HoldId add(double service_ms, TimePoint since, std::int32_t priority = 0) {
    RequestProfile profile;
    profile.admission.priority = priority;
    return queue_.add(profile, service_ms, since);
  }

  HoldQueue queue_;
  TimePoint start_{seconds(1'000)};
};

TEST_F(HoldQueueTest, WhoTakesLessComesFirst) {
  const HoldId cold = add(4'000, start_);
  const HoldId cached = add(400, start_);
  EXPECT_EQ(queue_.next(start_ + seconds(1)), (std::vector{cached, cold}));
  EXPECT_EQ(queue_.oldest(), cold);
}

TEST_F(HoldQueueTest, WhoHasWaitedLongPassesThoseWhoTakeLess) {
  const HoldId cold = add(4'000, start_);
  const TimePoint even = start_ + 9 * HoldQueue::kEven;  // (30 s + 270 s) / 4 as 30 s / 0.4
  const HoldId before = add(400, even - seconds(1));
  EXPECT_EQ(queue_.next(even - seconds(1)), (std::vector{before, cold}));
  queue_.erase(before);
  const HoldId behind = add(400, even + seconds(1));
  EXPECT_EQ(queue_.next(even + seconds(1)), (std::vector{cold, behind}));
}

TEST_F(HoldQueueTest, APriorityIsAFactorOfTwo) {
  const HoldId usual = add(400, start_);
  const HoldId low = add(210, start_, 1);
  const HoldId high = add(790, start_, -1);
  EXPECT_EQ(queue_.next(start_), (std::vector{high, usual, low}));
  const HoldId absurd = add(400, start_, -1'000'000);
  EXPECT_EQ(queue_.next(start_).front(), absurd);
}

TEST_F(HoldQueueTest, EveryoneIsLookedAtInTurn) {
  std::set<HoldId> never;
  for (int i = 0; i < 100; ++i) never.insert(add(1'000 + i, start_));
  for (int look = 0; look < 25; ++look) {
    const std::vector<HoldId> ids = queue_.next(start_);
    EXPECT_LE(ids.size(), HoldQueue::kFirst + HoldQueue::kByTurns);
    EXPECT_EQ(ids.size(), std::set(ids.begin(), ids.end()).size()) << "nobody twice";
    for (const HoldId id : ids) never.erase(id);
  }
  EXPECT_TRUE(never.empty()) << never.size() << " were not looked at";
}

TEST_F(HoldQueueTest, WhoWaitedTooLongComesByArrivalAndPriority) {
  const HoldId low = add(400, start_, 1);
  const HoldId first = add(400, start_ + seconds(10));
  const HoldId second = add(40, start_ + seconds(11));
  const HoldId high = add(400, start_ + seconds(12), -1);
  EXPECT_EQ(queue_.overdue(seconds(60), start_ + seconds(59)), std::nullopt);
  EXPECT_EQ(queue_.overdue(seconds(60), start_ + seconds(60)), low) << "the others have not waited so long";
  EXPECT_EQ(queue_.overdue(seconds(60), start_ + seconds(71)), first);
  EXPECT_EQ(queue_.overdue(seconds(60), start_ + seconds(72)), high);
  queue_.erase(high);
  queue_.erase(first);
  EXPECT_EQ(queue_.overdue(seconds(60), start_ + seconds(72)), second);
  EXPECT_EQ(queue_.overdue(seconds(0), start_ + seconds(10'000)), second) << "10 s more are nothing then";
}

TEST_F(HoldQueueTest, WhoseLatestInstantHasComeIsFound) {
  const HoldId never = add(400, start_);
  const HoldId late = queue_.add({}, 400, start_, start_ + seconds(9));
  const HoldId early = queue_.add({}, 400, start_, start_ + seconds(5));
  EXPECT_EQ(queue_.late(start_ + seconds(4)), std::nullopt);
  EXPECT_EQ(queue_.late(start_ + seconds(5)), early);
  queue_.update(early, 40, start_ + seconds(20));
  EXPECT_EQ(queue_.late(start_ + seconds(8)), std::nullopt);
  EXPECT_EQ(queue_.next(start_ + seconds(8)).front(), early) << "it takes less now";
  EXPECT_EQ(queue_.late(start_ + seconds(30)), late);
  queue_.erase(late);
  EXPECT_EQ(queue_.late(start_ + seconds(30)), early);
  queue_.erase(early);
  EXPECT_EQ(queue_.late(start_ + std::chrono::hours(1'000)), std::nullopt);
  EXPECT_TRUE(queue_.contains(never));
}

TEST_F(HoldQueueTest, WhatIsErasedIsGone) {
  const HoldId first = add(0, start_);
  EXPECT_TRUE(queue_.contains(first));
  EXPECT_TRUE(queue_.erase(first));
  EXPECT_FALSE(queue_.erase(first));
  EXPECT_TRUE(queue_.empty());
  EXPECT_TRUE(queue_.next(start_).empty());
}

}  // namespace
}  // namespace kvist::dispatch::hold_queue_test

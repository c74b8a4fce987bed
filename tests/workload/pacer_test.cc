#include "kvist/workload/pacer.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvist::workload::pacer_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

std::vector<TimePoint> take_all(Pacer& pacer, TimePoint now) {
  std::vector<TimePoint> due;
  while (const auto at = pacer.try_start(now)) due.push_back(*at);
  return due;
}

TEST(Pacer, StartsAreOnAnAbsoluteSchedule) {
  Pacer pacer(10, 1000, kStart);
  std::vector<TimePoint> starts;
  while (pacer.next_start() && *pacer.next_start() < kStart + seconds(1)) {
    const TimePoint due = *pacer.next_start();
    // The client is always 3 ms late: the schedule does not move.
    const auto started = pacer.try_start(due + milliseconds(3));
    ASSERT_TRUE(started.has_value());
    EXPECT_EQ(*started, due);
    starts.push_back(due);
  }
  ASSERT_EQ(starts.size(), 10U);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i], kStart + milliseconds(100) * static_cast<int>(i));
  }
}

TEST(Pacer, DoesNotDriftAtARateWithoutAnExactPeriod) {
  Pacer pacer(3, 10'000, kStart);
  EXPECT_EQ(take_all(pacer, kStart + seconds(3000)).size(), 9001U);
  EXPECT_EQ(*pacer.next_start(), kStart + from_seconds(9001.0 / 3));
}

TEST(Pacer, NothingIsDueBeforeItsInstant) {
  Pacer pacer(10, 5, kStart);
  EXPECT_FALSE(pacer.try_start(kStart - Duration(1)).has_value());
  EXPECT_EQ(*pacer.try_start(kStart), kStart);
  EXPECT_FALSE(pacer.try_start(kStart + milliseconds(99)).has_value());
}

TEST(Pacer, ALateClientForfeitsNoSlot) {
  Pacer pacer(10, 100, kStart);
  const std::vector<TimePoint> due = take_all(pacer, kStart + seconds(2));  // first poll after 2 s
  ASSERT_EQ(due.size(), 21U);
  EXPECT_EQ(due.front(), kStart);
  EXPECT_EQ(due.back(), kStart + seconds(2));
  EXPECT_EQ(pacer.dropped_slots(), 0U);
}

TEST(Pacer, AStartIsDueWhenItsPlaceBecomesFree) {
  Pacer pacer(10, 2, kStart);
  EXPECT_EQ(take_all(pacer, kStart + seconds(1)).size(), 2U);
  EXPECT_EQ(pacer.taken(), 2U);
  EXPECT_FALSE(pacer.next_start().has_value());
  pacer.release(kStart + milliseconds(1250));
  EXPECT_EQ(*pacer.next_start(), kStart + milliseconds(1250));  // slot 2 was at 0.2 s
  EXPECT_EQ(*pacer.try_start(kStart + milliseconds(1300)), kStart + milliseconds(1250));
}

TEST(Pacer, HeldBackSlotsBeyondThePlacesAreDroppedAndCounted) {
  Pacer pacer(10, 2, kStart);
  EXPECT_EQ(take_all(pacer, kStart + milliseconds(100)).size(), 2U);  // slots 0 and 1
  // Full until 10 s: slots 2 to 100 have passed; two of them may wait.
  const TimePoint freed = kStart + seconds(10);
  pacer.release(freed);
  EXPECT_EQ(pacer.dropped_slots(), 97U);
  pacer.release(freed);
  EXPECT_EQ(pacer.dropped_slots(), 97U);
  EXPECT_EQ(take_all(pacer, freed), (std::vector<TimePoint>{freed, freed}));
  pacer.release(freed);
  EXPECT_EQ(*pacer.next_start(), freed + milliseconds(100));  // slot 101: the schedule itself has not moved
}

TEST(Pacer, WithoutARateAPlaceIsEnoughAndNothingIsDropped) {
  Pacer pacer(0, 2, kStart);
  EXPECT_EQ(take_all(pacer, kStart), (std::vector<TimePoint>{kStart, kStart}));
  EXPECT_FALSE(pacer.next_start().has_value());
  const TimePoint freed = kStart + seconds(10'000);
  pacer.release(freed);
  EXPECT_EQ(take_all(pacer, freed), (std::vector<TimePoint>{freed}));
  pacer.set_places(3, freed + seconds(1));
  EXPECT_EQ(take_all(pacer, freed + seconds(1)), (std::vector<TimePoint>{freed + seconds(1)}));
  EXPECT_EQ(pacer.dropped_slots(), 0U);
}

TEST(Pacer, AddedPlacesAreFreeSinceThen) {
  Pacer pacer(10, 2, kStart);
  EXPECT_EQ(take_all(pacer, kStart + milliseconds(100)).size(), 2U);
  // Full until 10 s: of the slots that have passed two may wait, and use two of the three places that come.
  const TimePoint raised = kStart + seconds(10);
  pacer.set_places(5, raised);
  EXPECT_EQ(pacer.places(), 5U);
  EXPECT_EQ(pacer.taken(), 2U);
  EXPECT_EQ(pacer.dropped_slots(), 97U);
  EXPECT_EQ(take_all(pacer, raised), (std::vector<TimePoint>{raised, raised}));
  EXPECT_EQ(*pacer.next_start(), raised + milliseconds(100));  // slot 101
  EXPECT_TRUE(pacer.try_start(raised + milliseconds(100)).has_value());
  EXPECT_FALSE(pacer.next_start().has_value());
}

TEST(Pacer, RaisingByNothingChangesNothing) {
  Pacer pacer(10, 2, kStart);
  EXPECT_TRUE(pacer.try_start(kStart).has_value());
  pacer.set_places(2, kStart + seconds(3));
  EXPECT_EQ(pacer.taken(), 1U);
  EXPECT_EQ(pacer.dropped_slots(), 0U);
  EXPECT_EQ(*pacer.next_start(), kStart + milliseconds(100));
}

TEST(Pacer, LookingMoreOftenChangesNothing) {
  Pacer seldom(7, 3, kStart);
  Pacer often(7, 3, kStart);
  for (int step = 1; step <= 400; ++step) {
    const TimePoint now = kStart + milliseconds(50) * step;
    const bool frees = step % 20 == 0;
    (void)take_all(often, now);
    if (step % 20 == 10 || frees) (void)take_all(seldom, now);
    if (frees) {
      ASSERT_EQ(seldom.taken(), often.taken());
      for (std::uint32_t i = seldom.taken(); i > 0; --i) {
        seldom.release(now);
        often.release(now);
      }
      ASSERT_EQ(take_all(seldom, now), take_all(often, now));
      ASSERT_EQ(seldom.dropped_slots(), often.dropped_slots());
    }
  }
  EXPECT_GT(often.dropped_slots(), 0U);
}

TEST(Pacer, FewerPlacesTakeEffectAsConversationsEnd) {
  Pacer pacer(0, 4, kStart);
  EXPECT_EQ(take_all(pacer, kStart).size(), 4U);
  pacer.set_places(2, kStart + seconds(1));
  EXPECT_EQ(pacer.taken(), 4U);  // nobody is broken off
  pacer.release(kStart + seconds(2));
  pacer.release(kStart + seconds(3));
  EXPECT_FALSE(pacer.next_start().has_value());
  pacer.release(kStart + seconds(4));
  EXPECT_EQ(take_all(pacer, kStart + seconds(4)), std::vector{kStart + seconds(4)});
  EXPECT_EQ(pacer.taken(), 2U);
}

TEST(Pacer, OfFreePlacesTheLongestFreeStay) {
  Pacer pacer(10, 3, kStart);
  EXPECT_EQ(take_all(pacer, kStart).size(), 1U);
  pacer.set_places(2, kStart + milliseconds(10));
  pacer.set_places(4, kStart + milliseconds(20));
  EXPECT_EQ(take_all(pacer, kStart + seconds(1)),
            (std::vector{kStart + milliseconds(100), kStart + milliseconds(200), kStart + milliseconds(300)}));
}

TEST(Pacer, ANewRateGoesOnFromItsInstant) {
  Pacer pacer(10, 1'000, kStart);
  EXPECT_EQ(take_all(pacer, kStart + milliseconds(250)).size(), 3U);
  // Half of the gap before the slot at 300 ms has passed; the other half takes a fifth of the time.
  pacer.set_rate(50, kStart + milliseconds(250));
  EXPECT_EQ(*pacer.next_start(), kStart + milliseconds(260));
  EXPECT_EQ(take_all(pacer, kStart + milliseconds(300)).back(), kStart + milliseconds(300));
  pacer.set_rate(0, kStart + milliseconds(310));
  EXPECT_EQ(*pacer.next_start(), kStart + milliseconds(310));
  EXPECT_TRUE(pacer.try_start(kStart + milliseconds(310)).has_value());
  pacer.set_rate(10, kStart + milliseconds(320));
  EXPECT_EQ(take_all(pacer, kStart + milliseconds(420)),
            (std::vector{kStart + milliseconds(320), kStart + milliseconds(420)}));
}

TEST(Pacer, ChangesBackAndForthLeaveTheScheduleAsItWas) {
  Pacer changed(7, 1'000, kStart);
  Pacer same(7, 1'000, kStart);
  for (int i = 1; i <= 20; ++i) {
    const TimePoint now = kStart + milliseconds(137) * i;
    EXPECT_EQ(take_all(changed, now).size(), take_all(same, now).size());
    changed.set_rate(3, now);
    changed.set_rate(7, now);
  }
}

}  // namespace
}  // namespace kvist::workload::pacer_test

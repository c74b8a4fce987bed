#include "kvist/simulation/threads/second_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::simulation::second_thread_test {
namespace {

TimePoint at(std::int64_t ns) {
  return TimePoint(Duration(ns));
}

/// What each item was computed for is written without a lock: only one thread has it at a time.
class Recorded : public SecondThread::Work {
 public:
  explicit Recorded(std::size_t items) : computed_for(items) {}
  void compute(std::uint32_t item, TimePoint when) override {
    computed_for[item] = when;
    ++computed;
  }

  std::vector<TimePoint> computed_for;
  std::atomic<std::uint64_t> computed = 0;
};

TEST(SecondThread, ComputesAnItemOnceOrLeavesItToTheFirst) {
  constexpr std::uint32_t kItems = 20;
  Recorded work(kItems);
  SecondThread thread(kItems, work);
  RandomStream random(3);
  std::vector<TimePoint> ordered_for(kItems);
  std::uint64_t done = 0;
  const auto take_back = [&](std::uint32_t item) {
    if (thread.take_back(item)) {
      ++done;
      ASSERT_EQ(work.computed_for[item], ordered_for[item]);
    }
    ASSERT_FALSE(thread.is_ordered(item));
    work.computed_for[item] = {};
  };
  for (int i = 1; i < 200'000; ++i) {
    const auto item = static_cast<std::uint32_t>(random.uniform_int(0, kItems - 1));
    if (thread.is_ordered(item)) {
      take_back(item);
    } else {
      ordered_for[item] = at(i);
      const bool has_room = thread.order(item, ordered_for[item]);
      ASSERT_EQ(thread.is_ordered(item), has_room);
    }
  }
  for (std::uint32_t item = 0; item < kItems; ++item)
    if (thread.is_ordered(item)) take_back(item);
  EXPECT_EQ(work.computed, done) << "computed and taken back all the same";
}

TEST(SecondThread, HasNothingToTakeBackOfWhatWasNotOrdered) {
  Recorded work(2);
  SecondThread thread(2, work);
  EXPECT_FALSE(thread.take_back(1));
}

/// Goes on when it is told to.
class Held : public Recorded {
 public:
  using Recorded::Recorded;
  void compute(std::uint32_t item, TimePoint when) override {
    goes_on.wait(false);
    Recorded::compute(item, when);
  }
  std::atomic<bool> goes_on = false;
};

TEST(SecondThread, ComputesWhatIsOrdered) {
  Recorded work(2);
  SecondThread thread(2, work);
  ASSERT_TRUE(thread.order(1, at(7)));
  while (work.computed == 0) std::this_thread::yield();
  EXPECT_TRUE(thread.is_ordered(1)) << "until it is taken back";
  EXPECT_TRUE(thread.take_back(1));
  EXPECT_EQ(work.computed_for, (std::vector{TimePoint{}, at(7)}));
}

// While the second thread is busy orders pile up, until there is no room for another.
TEST(SecondThread, RefusesOrdersBeyondItsRoom) {
  constexpr std::uint32_t kItems = 2'000;
  Held work(kItems);
  SecondThread thread(kItems, work);
  std::uint32_t taken = 0;
  while (taken < kItems && thread.order(taken, at(0))) ++taken;
  EXPECT_LT(taken, kItems);
  EXPECT_GE(taken, 256U);
  EXPECT_FALSE(thread.is_ordered(taken));
  work.goes_on = true;
  work.goes_on.notify_all();
  for (std::uint32_t item = 0; item < taken; ++item) (void)thread.take_back(item);
  // One of those that were taken back may be ordered again at once.
  while (!thread.order(0, at(1))) {
  }
  (void)thread.take_back(0);
}

}  // namespace
}  // namespace kvist::simulation::second_thread_test

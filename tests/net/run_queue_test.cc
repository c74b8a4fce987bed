#include "kvist/net/run_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kvist::net::run_queue_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(RunQueue, ReadsWhatTheSystemWrites) {
  const std::optional<RunQueueTime> time = parse_run_queue("584221 52408 17\n");
  ASSERT_TRUE(time);
  EXPECT_EQ(time->waited, nanoseconds(52'408));
  EXPECT_EQ(time->begun, 17U);
  for (const char* wrong : {"", "\n", "1 2", "1 2 x", "1 -2 3", "1 9999999999999999999 3"}) {
    EXPECT_FALSE(parse_run_queue(wrong)) << wrong;
  }
}

TEST(RunQueue, AWakeUpIsAsLateAsTheThreadWaited) {
  const TimePoint at = TimePoint(std::chrono::seconds(5));
  const RunQueueTime before{.waited = milliseconds(10), .begun = 3};
  const RunQueueTime prompt{.waited = milliseconds(10), .begun = 4};
  const RunQueueTime late{.waited = milliseconds(17), .begun = 4};
  const RunQueueTime stopped{.waited = milliseconds(10), .begun = 5};
  const std::optional<TimePoint> woken = woken_at(before, prompt, at);
  ASSERT_TRUE(woken);
  EXPECT_LT(*woken, at);
  EXPECT_GE(*woken, at - milliseconds(1)) << "finer than the verdict of a client's delays";
  EXPECT_EQ(woken_at(before, late, at), *woken - milliseconds(7));
  EXPECT_TRUE(woken_at(before, before, at)) << "it did not sleep";
  EXPECT_FALSE(woken_at(before, stopped, at)) << "how long a stop took is not in the queue's time";
  EXPECT_FALSE(woken_at(prompt, before, at));
  EXPECT_FALSE(woken_at({}, late, at));
  EXPECT_FALSE(woken_at(before, {}, at));
}

TEST(RunQueue, CountsEachSleepOfItsThread) {
  RunQueue queue;
  const std::optional<RunQueueTime> before = queue.read();
  if (!before) GTEST_SKIP() << "this system does not count";
  std::this_thread::sleep_for(milliseconds(1));
  const std::optional<RunQueueTime> after = queue.read();
  ASSERT_TRUE(after);
  EXPECT_GT(after->begun, before->begun);
  EXPECT_GE(after->waited, before->waited);
}

}  // namespace
}  // namespace kvist::net::run_queue_test

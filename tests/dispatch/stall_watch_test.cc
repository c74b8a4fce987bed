#include "kvist/dispatch/stall_watch.h"

#include <gtest/gtest.h>

namespace kvist::dispatch::stall_watch_test {
namespace {

TimePoint at_ms(std::int64_t ms) {
  return TimePoint(std::chrono::milliseconds(ms));
}

TEST(StallWatch, SilenceIsCountedOnlyWithWorkAndFromTheLastSign) {
  StallWatch watch(1);
  const WorkerId w(0);
  EXPECT_EQ(watch.silence(w, at_ms(5'000)), Duration(0));
  watch.on_attempt(w, at_ms(5'000));
  watch.on_attempt(w, at_ms(5'500));
  EXPECT_EQ(watch.silence(w, at_ms(6'000)), std::chrono::milliseconds(1'000)) << "more work is no sign of life";
  watch.on_progress(w, at_ms(6'000));
  EXPECT_EQ(watch.silence(w, at_ms(6'200)), std::chrono::milliseconds(200));
  watch.on_left(w);
  EXPECT_TRUE(watch.has_work(w));
  watch.on_left(w);
  EXPECT_FALSE(watch.has_work(w));
  EXPECT_EQ(watch.silence(w, at_ms(60'000)), Duration(0));
}

TEST(StallWatch, TheTimeoutFollowsTheExpectedDuration) {
  EXPECT_EQ(StallWatch::timeout(30, 100), std::chrono::seconds(2));
  EXPECT_EQ(StallWatch::timeout(200, 100), std::chrono::seconds(4));
  EXPECT_EQ(StallWatch::timeout(30, 5'000), std::chrono::seconds(15));
}

}  // namespace
}  // namespace kvist::dispatch::stall_watch_test

#include "kvist/base/windowed.h"

#include <gtest/gtest.h>

namespace kvist::windowed_test {
namespace {

using std::chrono::seconds;

constexpr TimePoint at_second(int s) {
  return TimePoint{seconds(s)};
}

TEST(WindowedSummary, AShorterWindowIsAskedForWithoutChangingTheLongerOne) {
  WindowedSummary summary(seconds(60));
  for (int s = 1; s <= 60; ++s) summary.observe(at_second(s), s);
  EXPECT_DOUBLE_EQ(*summary.quantile(at_second(60), 0), 1);
  EXPECT_DOUBLE_EQ(*summary.quantile(at_second(60), 0, seconds(10)), 51);
  EXPECT_DOUBLE_EQ(*summary.quantile(at_second(60), 0), 1);
  EXPECT_FALSE(summary.quantile(at_second(75), 0.5, seconds(10)).has_value());
  EXPECT_TRUE(summary.quantile(at_second(75), 0.5).has_value());
}

TEST(WindowedRate, AShorterWindowHasItsOwnLength) {
  WindowedRate rate(seconds(60));
  for (int s = 1; s <= 60; ++s) rate.add(at_second(s), s > 50 ? 6 : 0);
  EXPECT_DOUBLE_EQ(rate.per_second(at_second(60)), 1);
  EXPECT_DOUBLE_EQ(rate.per_second(at_second(60), seconds(10)), 6);
}

}  // namespace
}  // namespace kvist::windowed_test

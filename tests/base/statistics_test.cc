#include "kvist/base/statistics.h"

#include <gtest/gtest.h>

#include "kvist/base/windowed.h"

namespace kvist::statistics_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Quantile, InterpolatesLinearlyLikeNumpy) {
  const std::vector<double> sorted = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 1), 4);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0.95), 3.85);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(std::vector<double>{7}, 0.95), 7);
}

TEST(Describe, SummarisesAllSamples) {
  const Distribution d = describe({4, 1, 3, 2});
  EXPECT_EQ(d.count, 4U);
  EXPECT_DOUBLE_EQ(d.mean, 2.5);
  EXPECT_NEAR(d.standard_deviation, 1.2909944, 1e-6);
  EXPECT_DOUBLE_EQ(d.min, 1);
  EXPECT_DOUBLE_EQ(d.max, 4);
  EXPECT_EQ(describe({}).count, 0U);
}

TEST(WindowedSummary, SeesOnlyTheWindowBeforeTheInstant) {
  WindowedSummary summary(seconds(60));
  const TimePoint start{};
  for (int second = 1; second <= 120; ++second) summary.observe(start + seconds(second), second);
  EXPECT_EQ(summary.count(start + seconds(120)), 60U);  // 61..120
  EXPECT_DOUBLE_EQ(*summary.quantile(start + seconds(120), 0), 61);
  EXPECT_DOUBLE_EQ(*summary.quantile(start + seconds(120), 0.5), 90.5);
  EXPECT_FALSE(summary.quantile(start + seconds(300), 0.5).has_value());
  EXPECT_EQ(summary.total_count(), 120U);
  EXPECT_DOUBLE_EQ(summary.total_sum(), 7260);
}

TEST(WindowedRate, DividesTheIncreaseByTheWindow) {
  WindowedRate rate(seconds(10));
  const TimePoint start{};
  for (int i = 0; i < 1000; ++i) rate.add(start + milliseconds(20 * i), 2);  // 100 per second for 20 s
  EXPECT_NEAR(rate.per_second(start + seconds(20)), 100, 0.5);
  EXPECT_NEAR(rate.per_second(start + seconds(25)), 50, 0.5);
  EXPECT_DOUBLE_EQ(rate.per_second(start + seconds(100)), 0);
  EXPECT_DOUBLE_EQ(rate.total(), 2000);
}

}  // namespace
}  // namespace kvist::statistics_test

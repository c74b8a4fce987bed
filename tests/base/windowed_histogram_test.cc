#include "kvist/base/windowed_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::windowed_histogram_test {
namespace {

TimePoint at_second(double second) {
  return TimePoint{} + from_seconds(second);
}

TEST(WindowedHistogram, QuantilesAreAtMostOnePercentTooHigh) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    RandomStream random(seed);
    WindowedHistogram histogram(std::chrono::seconds(60));
    std::vector<double> values;
    for (int i = 0; i < 5'000; ++i) {
      values.push_back(random.exponential(20));
      histogram.observe(at_second(0.01 * i), values.back());
    }
    std::ranges::sort(values);
    for (const double q : {0.01, 0.5, 0.95, 0.99}) {
      const double exact = values[static_cast<std::size_t>(q * 5'000) - 1];
      const double found = histogram.quantile(at_second(50), q).value();
      EXPECT_GE(found, exact * 0.999) << "seed " << seed << ", q " << q;
      EXPECT_LE(found, exact * 1.011) << "seed " << seed << ", q " << q;
    }
  }
}

TEST(WindowedHistogram, ForgetsWhatIsOlderThanTheWindow) {
  WindowedHistogram histogram(std::chrono::seconds(12));
  EXPECT_FALSE(histogram.quantile(at_second(5), 0.5).has_value());
  for (int i = 0; i < 100; ++i) histogram.observe(at_second(1), 1'000);
  histogram.observe(at_second(10), 10);
  EXPECT_NEAR(histogram.quantile(at_second(10), 0.5).value(), 1'000, 10);
  EXPECT_NEAR(histogram.quantile(at_second(15), 0.5).value(), 10, 0.1);
  EXPECT_FALSE(histogram.quantile(at_second(60), 0.5).has_value());
}

TEST(WindowedHistogram, AShorterWindowIsRoundedUpToTwelfths) {
  WindowedHistogram histogram(std::chrono::seconds(60));
  histogram.observe(at_second(10), 1'000);
  histogram.observe(at_second(57), 10);
  EXPECT_NEAR(histogram.quantile(at_second(60), 1).value(), 1'000, 10);
  EXPECT_NEAR(histogram.quantile(at_second(60), 1, std::chrono::seconds(8)).value(), 10, 0.1);
  EXPECT_NEAR(histogram.quantile(at_second(60), 1, std::chrono::seconds(600)).value(), 1'000, 10);
}

TEST(WindowedHistogram, ExtremesCountInTheOuterBuckets) {
  WindowedHistogram histogram(std::chrono::seconds(12));
  histogram.observe(at_second(1), 0);
  EXPECT_DOUBLE_EQ(histogram.quantile(at_second(1), 1).value(), 1e-3);
  histogram.observe(at_second(1), 1e9);
  EXPECT_GT(histogram.quantile(at_second(1), 1).value(), 180'000);
}

}  // namespace
}  // namespace kvist::windowed_histogram_test

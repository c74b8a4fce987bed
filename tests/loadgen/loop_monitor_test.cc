#include "kvist/loadgen/loop_monitor.h"

#include <gtest/gtest.h>

namespace kvist::loadgen::loop_monitor_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(DelayHistogram, QuantilesAreAtMostFivePercentTooHighAndNeverTooLow) {
  DelayHistogram delays;
  EXPECT_EQ(delays.quantile(0.99), Duration{});
  for (int us = 1; us <= 1000; ++us) delays.record(microseconds(us));
  EXPECT_EQ(delays.count(), 1000U);
  EXPECT_EQ(delays.max(), microseconds(1000));
  for (const double q : {0.1, 0.5, 0.9, 0.99}) {
    const double exact_us = 1000 * q;
    const double us = to_seconds(delays.quantile(q)) * 1e6;
    EXPECT_GE(us, exact_us * 0.999);
    EXPECT_LE(us, exact_us * 1.051);
  }
  EXPECT_EQ(delays.quantile(1), microseconds(1000));
}

TEST(DelayHistogram, HoldsTheExtremes) {
  DelayHistogram delays;
  delays.record(Duration(-5));
  delays.record(seconds(10'000));
  EXPECT_EQ(delays.max(), seconds(10'000));
  EXPECT_EQ(delays.quantile(1), seconds(10'000));
  EXPECT_LE(delays.quantile(0.5), microseconds(1));
}

TEST(LoopMonitor, AStallCountsForTheTicksItSwallowed) {
  DelayHistogram delays;
  LoopMonitor::record_tick(delays, microseconds(100));
  EXPECT_EQ(delays.count(), 1U);
  LoopMonitor::record_tick(delays, milliseconds(95));  // and 85, 75, ... 5
  EXPECT_EQ(delays.count(), 11U);
  EXPECT_EQ(delays.max(), milliseconds(95));
  EXPECT_NEAR(to_milliseconds(delays.quantile(6.0 / 11)), 45, 45 * 0.051);
}

TEST(LoopMonitor, ProcessCpuTimeGrows) {
  const double before = process_cpu_seconds();
  double sum = 0;
  for (int i = 1; i < 3'000'000; ++i) sum += 1.0 / i;
  EXPECT_GT(sum, 10);
  EXPECT_GE(process_cpu_seconds(), before);
  EXPECT_GT(process_cpu_seconds(), 0);
}

}  // namespace
}  // namespace kvist::loadgen::loop_monitor_test

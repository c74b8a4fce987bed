#include "kvist/loadgen/host_load.h"

#include <gtest/gtest.h>

namespace kvist::loadgen::host_load_test {
namespace {

TEST(HostLoad, ReadsTheTimeInTheRunQueue) {
  EXPECT_EQ(parse_run_queue_time("584221 52408 17\n"), std::chrono::nanoseconds(52'408));
  EXPECT_EQ(parse_run_queue_time("0 0 0\n"), Duration::zero());
  for (const char* wrong :
       {"", "\n", "1\n", "1 2\n", "1 x 3\n", "-1 2 3\n", "1 99999999999999999999 3\n", "1 9223372036854775808 3\n"}) {
    EXPECT_EQ(parse_run_queue_time(wrong), std::nullopt) << wrong;
  }
}

TEST(HostLoad, ReadsWhatAHypervisorTook) {
  const auto ticks = parse_cpu_ticks("cpu  94732 2 18356 38506 360 1 87 31 4 0\ncpu0 1 2 3\n");
  ASSERT_TRUE(ticks.has_value());
  EXPECT_DOUBLE_EQ(ticks->all, 94'732 + 2 + 18'356 + 38'506 + 360 + 1 + 87 + 31);
  EXPECT_DOUBLE_EQ(ticks->stolen, 31);
  for (const char* wrong :
       {"", "cpu", "cpu \n", "cpu  1 2 3 4 5 6 7\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7 y\n"}) {
    EXPECT_FALSE(parse_cpu_ticks(wrong).has_value()) << wrong;
  }
}

TEST(HostLoad, GrowsOrIsUnknown) {
  HostLoad load;
  EXPECT_EQ(load.run_queue_seconds(), std::nullopt) << "not started";
  EXPECT_EQ(load.steal_share(), std::nullopt);
  load.start();
  EXPECT_GE(load.run_queue_seconds().value_or(0), 0);
  EXPECT_GE(load.steal_share().value_or(0), 0);
  EXPECT_LE(load.steal_share().value_or(0), 1);
}

}  // namespace
}  // namespace kvist::loadgen::host_load_test

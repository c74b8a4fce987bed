#include "kvist/planning/trace_limit.h"

#include <gtest/gtest.h>

#include <memory>

namespace kvist::planning::trace_limit_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

spec::SweepSpec sweep_of_trace() {
  spec::SweepSpec sweep;
  sweep.workload.trace.file = "t.jsonl";
  sweep.method = {.warmup = seconds(5), .snapshots = 2, .snapshot_interval = seconds(5), .window = seconds(5)};
  return sweep;
}

/// Two requests a second for a minute, from 10 s on.
workload::LoadInput two_a_second() {
  auto trace = std::make_shared<workload::Trace>();
  for (int i = 0; i < 120; ++i) trace->requests.push_back({seconds(10) + milliseconds(500 * i), 100, 10, {}});
  return {.trace = std::move(trace), .recorded = nullptr};
}

TEST(TraceLimit, IsTheRateAtWhichTheTraceEndsWithTheWindow) {
  spec::SweepSpec sweep = sweep_of_trace();
  const auto limit = trace_limit(sweep, two_a_second());
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->lasts, seconds(60));
  EXPECT_EQ(limit->needs, seconds(15));
  EXPECT_EQ(limit->level, 400U);
  sweep.workload.trace.speed = 8;
  EXPECT_EQ(trace_limit(sweep, two_a_second())->level, 50U);
}

TEST(TraceLimit, AShortTraceHasNone) {
  spec::SweepSpec sweep = sweep_of_trace();
  sweep.method.warmup = std::chrono::hours(2);
  EXPECT_EQ(trace_limit(sweep, two_a_second())->level, 0U);
}

TEST(TraceLimit, OnlyOpenTracesAreSpedUp) {
  spec::SweepSpec sweep = sweep_of_trace();
  sweep.workload.trace.loop = spec::TraceLoop::kClosed;
  EXPECT_FALSE(trace_limit(sweep, two_a_second()));
  sweep.workload.trace = {};
  EXPECT_FALSE(trace_limit(sweep, {}));
}

}  // namespace
}  // namespace kvist::planning::trace_limit_test

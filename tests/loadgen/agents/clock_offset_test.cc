#include "kvist/loadgen/agents/clock_offset.h"

#include <gtest/gtest.h>

#include <vector>

#include "kvist/base/random.h"

namespace kvist::loadgen::clock_offset_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint at(Duration since) {
  return TimePoint(since);
}

TEST(ClockOffsetTest, TheSmallestRoundTripDecidesAndBoundsTheError) {
  const Duration ahead = seconds(100);
  const std::vector<ClockReading> readings = {
      {at(seconds(1)), at(seconds(1) + milliseconds(20)), at(seconds(1) + milliseconds(19)) + ahead},
      {at(seconds(2)), at(seconds(2) + milliseconds(2)), at(seconds(2) + milliseconds(1)) + ahead},
      {at(seconds(3)), at(seconds(3) - milliseconds(1)), at(seconds(9)) + ahead}};
  const auto offset = offset_of(readings);
  ASSERT_TRUE(offset.has_value());
  EXPECT_EQ(*offset, (ClockOffset{.at = at(seconds(2) + milliseconds(1)), .ahead = ahead, .bound = milliseconds(1)}));
  EXPECT_FALSE(offset_of({}).has_value());
  EXPECT_FALSE(offset_of(std::span(readings).subspan(2)).has_value());
}

TEST(ClockOffsetTest, TheTruthIsWithinTheBoundHoweverTheWayThereAndBackDiffer) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    const Duration truth = from_seconds((random.uniform() - 0.5) * 2e5);
    std::vector<ClockReading> readings;
    TimePoint now = at(seconds(1'000'000));
    for (int i = 0; i < 16; ++i) {
      const Duration there = from_seconds(random.uniform() * 5e-3);
      const Duration back = from_seconds(random.uniform() * 5e-3);
      readings.push_back({now, now + there + back, now + there + truth});
      now += milliseconds(10);
    }
    const auto offset = offset_of(readings);
    ASSERT_TRUE(offset.has_value());
    EXPECT_LE(std::chrono::abs(offset->ahead - truth), offset->bound);
  }
}

TEST(ClockOffsetTest, InstantsGoThereAndBackAndDriftIsALine) {
  const Duration ahead = -seconds(5);
  ClockComparison clock({.at = at(seconds(100)), .ahead = ahead, .bound = microseconds(50)});
  EXPECT_EQ(clock.to_remote(at(seconds(110))), at(seconds(105)));
  EXPECT_EQ(clock.to_local(at(seconds(105))), at(seconds(110)));
  EXPECT_FALSE(clock.drift().has_value());
  EXPECT_FALSE(clock.jumped());
  // It gains 2 ms in 100 s: 20 millionths.
  clock.set_after({.at = at(seconds(200)), .ahead = ahead + milliseconds(2), .bound = microseconds(80)});
  EXPECT_EQ(clock.drift(), milliseconds(2));
  EXPECT_EQ(clock.bound(), microseconds(80));
  EXPECT_FALSE(clock.jumped());
  EXPECT_EQ(clock.to_local(at(seconds(95))), at(seconds(100)));
  EXPECT_LE(std::chrono::abs(clock.to_local(at(seconds(145)) + milliseconds(1)) - at(seconds(150))), microseconds(1));
  EXPECT_LE(std::chrono::abs(clock.to_local(at(seconds(195)) + milliseconds(2)) - at(seconds(200))), microseconds(1));
}

TEST(ClockOffsetTest, AClockThatJumpsIsNoDrift) {
  ClockComparison clock({.at = at(seconds(100)), .ahead = {}, .bound = milliseconds(1)});
  clock.set_after({.at = at(seconds(200)), .ahead = milliseconds(21), .bound = milliseconds(1)});
  EXPECT_FALSE(clock.jumped());  // both bounds, and 20 ms of quartz in 100 s
  clock.set_after({.at = at(seconds(200)), .ahead = milliseconds(23), .bound = milliseconds(1)});
  EXPECT_TRUE(clock.jumped());
  clock.set_after({.at = at(seconds(200)), .ahead = -milliseconds(23), .bound = milliseconds(1)});
  EXPECT_TRUE(clock.jumped());
}

}  // namespace
}  // namespace kvist::loadgen::clock_offset_test

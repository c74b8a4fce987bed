#include "kvist/workload/arrival_profile.h"

#include <gtest/gtest.h>

#include <limits>

#include "kvist/base/random.h"

namespace kvist::workload::arrival_profile_test {
namespace {

using spec::ArrivalPoint;
using std::chrono::seconds;

TEST(ArrivalProfile, AnEmptyOneIsTheFullRateAllTheTime) {
  const ArrivalProfile profile({});
  EXPECT_DOUBLE_EQ(profile.area_until(7.5), 7.5);
  EXPECT_DOUBLE_EQ(profile.instant_of(7.5).value(), 7.5);
}

TEST(ArrivalProfile, RampsAndStepsAreIntegrated) {
  // 0.5 for 10 s, a ramp to 2 over 20 s, then a step down to 1.
  const ArrivalProfile profile(
      {{.at = seconds(10), .share = 0.5}, {.at = seconds(30), .share = 2}, {.at = seconds(30), .share = 1}});
  EXPECT_DOUBLE_EQ(profile.area_until(10), 5);
  EXPECT_DOUBLE_EQ(profile.area_until(20), 5 + 10 * (0.5 + 1.25) / 2);
  EXPECT_DOUBLE_EQ(profile.area_until(30), 5 + 25);
  EXPECT_DOUBLE_EQ(profile.area_until(40), 40);
  EXPECT_NEAR(profile.instant_of(30).value(), 30, 1e-9);
  EXPECT_NEAR(profile.instant_of(40).value(), 40, 1e-9);
}

TEST(ArrivalProfile, InstantsAndAreasAreInverse) {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    RandomStream random(seed);
    std::vector<ArrivalPoint> points;
    for (int i = 0; i < 8; ++i) {
      points.push_back({.at = seconds(5 * i), .share = random.uniform() < 0.2 ? 0 : 3 * random.uniform()});
    }
    points.push_back({.at = seconds(50), .share = 1});
    ASSERT_TRUE(check_profile(points).has_value());
    const ArrivalProfile profile(points);
    for (double area = 0.1; area < 120; area += 0.37) {
      const double instant = profile.instant_of(area).value();
      EXPECT_NEAR(profile.area_until(instant), area, 1e-6) << "seed " << seed;
    }
  }
}

TEST(ArrivalProfile, OneThatEndsHasNoFurtherArrivals) {
  const ArrivalProfile profile({{.at = Duration(0), .share = 1}, {.at = seconds(10), .share = 0}});
  EXPECT_DOUBLE_EQ(profile.area_until(100), 5);
  EXPECT_TRUE(profile.instant_of(4.9).has_value());
  EXPECT_FALSE(profile.instant_of(5.1).has_value());
}

TEST(ArrivalProfile, WrongOnesAreRefused) {
  EXPECT_FALSE(check_profile({{.at = seconds(2), .share = 1}, {.at = seconds(1), .share = 1}}).has_value());
  EXPECT_FALSE(check_profile({{.at = seconds(2), .share = -1}}).has_value());
  EXPECT_FALSE(check_profile({{.at = seconds(2), .share = 0}}).has_value());
  EXPECT_TRUE(check_profile({}).has_value());
}

TEST(ArrivalProfile, AChangeOfTheRateScalesWhatFollows) {
  using std::chrono::seconds;
  const std::vector<spec::ArrivalPoint> ramp = {{.at = seconds(10), .share = 1}, {.at = seconds(20), .share = 3}};
  for (const double at : {0.0, 5.0, 10.0, 14.0, 20.0, 31.0}) {
    const ArrivalProfile before(ramp);
    const ArrivalProfile after(scaled_from(ramp, from_seconds(at), 2.5));
    for (const double t : {1.0, 9.0, 12.0, 16.0, 25.0, 40.0}) {
      const double extra = t > at ? 1.5 * (before.area_until(t) - before.area_until(at)) : 0;
      EXPECT_NEAR(after.area_until(t), before.area_until(t) + extra, 1e-9) << at << " " << t;
    }
  }
  EXPECT_NEAR(ArrivalProfile(scaled_from({}, seconds(3), 4)).area_until(5), 3 + 8, 1e-9);
  // A step at that very instant: what is behind it is scaled.
  const std::vector<spec::ArrivalPoint> step = {
      {.at = seconds(0), .share = 1}, {.at = seconds(4), .share = 1}, {.at = seconds(4), .share = 2}};
  EXPECT_NEAR(ArrivalProfile(scaled_from(step, seconds(4), 3)).area_until(6), 4 + 12, 1e-9);
}

TEST(ArrivalProfile, KnowsItsHighestShare) {
  using std::chrono::seconds;
  const ArrivalProfile ramp(
      {{.at = seconds(10), .share = 1}, {.at = seconds(20), .share = 3}, {.at = seconds(30), .share = 2}});
  EXPECT_DOUBLE_EQ(ramp.peak_until(5), 1);
  EXPECT_DOUBLE_EQ(ramp.peak_until(15), 2);
  EXPECT_DOUBLE_EQ(ramp.peak_until(100), 3);
  EXPECT_DOUBLE_EQ(ramp.peak_until(std::numeric_limits<double>::infinity()), 3);
  EXPECT_DOUBLE_EQ(ArrivalProfile(std::vector<spec::ArrivalPoint>{}).peak_until(9), 1);
}

}  // namespace
}  // namespace kvist::workload::arrival_profile_test

#include "kvist/workload/arrival_profile.h"

#include <gtest/gtest.h>

#include "kvist/base/random.h"

namespace kvist::workload {
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

}  // namespace
}  // namespace kvist::workload

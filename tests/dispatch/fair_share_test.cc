#include "kvist/dispatch/fair_share.h"

#include <gtest/gtest.h>

namespace kvist::dispatch::fair_share_test {
namespace {

using std::chrono::seconds;

TimePoint at(int s) {
  return TimePoint{} + seconds(s);
}

TEST(FairShare, AKeyAloneMayUseEverything) {
  FairShare shares;
  EXPECT_EQ(shares.on_request({.id = 1}, at(0)), 1);
  shares.charge(1, 1'000, at(0));
  EXPECT_EQ(shares.on_request({.id = 1}, at(5)), 1);
}

TEST(FairShare, SharesAreInProportionToWeights) {
  FairShare shares;
  (void)shares.on_request({.id = 1, .weight = 3}, at(0));
  (void)shares.on_request({.id = 2, .weight = 1}, at(0));
  shares.charge(1, 300, at(0));
  shares.charge(2, 100, at(0));
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 1, .weight = 3}, at(0)), 1);
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 2, .weight = 1}, at(0)), 1);
  shares.charge(2, 400, at(0));
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 2, .weight = 1}, at(0)), 2.5);
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 2, .weight = 4}, at(0)), 5.0 / 8 * 7 / 4) << "its weight was changed";
}

TEST(FairShare, HalfIsForgottenInAHalfLife) {
  FairShare shares;
  (void)shares.on_request({.id = 1}, at(0));
  (void)shares.on_request({.id = 2}, at(0));
  shares.charge(1, 200, at(0));
  shares.charge(2, 100, at(10));
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 1}, at(10)), 1);
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 2}, at(10)), 1);
}

TEST(FairShare, AKeyThatAsksForNothingHasNoClaim) {
  FairShare shares;
  (void)shares.on_request({.id = 1}, at(0));
  (void)shares.on_request({.id = 2}, at(0));
  shares.charge(2, 100, at(0));
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 2}, at(10)), 2);
  EXPECT_DOUBLE_EQ(shares.on_request({.id = 2}, at(11)), 1) << "the other is gone";
  EXPECT_EQ(shares.size(), 1U);
  shares.charge(1, 100, at(11));
  EXPECT_EQ(shares.on_request({.id = 1}, at(11)), 0) << "what is told of a forgotten key does not count";
}

TEST(FairShare, EqualUseStaysEqualHoweverLongItLasts) {
  FairShare shares;
  for (int second = 0; second < 3'000; ++second) {
    for (const std::uint64_t id : {1, 2}) {
      const double share = shares.on_request({.id = id}, at(second));
      if (second > 60) {
        EXPECT_NEAR(share, 1, 0.15) << second;
      }
      shares.charge(id, 100, at(second));
    }
  }
}

TEST(FairShare, IsBoundedAndLastsForDays) {
  FairShare shares;
  for (std::uint64_t id = 1; id <= FairShare::kMost + 10; ++id) {
    (void)shares.on_request({.id = id}, at(0));
    shares.charge(id, 10, at(0));
  }
  EXPECT_EQ(shares.size(), FairShare::kMost);
  for (int day = 1; day < 100; ++day) {
    (void)shares.on_request({.id = 1}, at(day * 86'400));
    (void)shares.on_request({.id = 2}, at(day * 86'400));
    shares.charge(1, 30, at(day * 86'400));
    shares.charge(2, 10, at(day * 86'400));
    EXPECT_DOUBLE_EQ(shares.on_request({.id = 1}, at(day * 86'400)), 1.5);
  }
  EXPECT_EQ(shares.size(), 2U);
}

}  // namespace
}  // namespace kvist::dispatch::fair_share_test

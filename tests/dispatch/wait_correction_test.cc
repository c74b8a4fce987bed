#include "kvist/dispatch/wait_correction.h"

#include <gtest/gtest.h>

namespace kvist::dispatch::wait_correction_test {
namespace {

constexpr double kShortMs = 100;

TEST(WaitCorrection, IsOfShortWaitsAndOfWhatIsBeyond) {
  WaitCorrection correction;
  EXPECT_EQ(correction.corrected_ms(70, kShortMs), 70);
  EXPECT_EQ(correction.corrected_ms(7'000, kShortMs), 7'000);
  for (int i = 0; i < 300; ++i) correction.observe(80, 160, kShortMs);
  for (int i = 0; i < 300; ++i) correction.observe(2'100, 200 + 2'400, kShortMs);
  EXPECT_NEAR(correction.of_short(), 2, 0.1);
  EXPECT_NEAR(correction.beyond(), 1.2, 0.01);
  EXPECT_NEAR(correction.corrected_ms(50, kShortMs), 100, 5);
  EXPECT_NEAR(correction.corrected_ms(2'100, kShortMs), 2'600, 20);
}

TEST(WaitCorrection, ForgetsWithFurtherRequestsAndStaysWithinItsBounds) {
  WaitCorrection correction;
  for (int i = 0; i < 1'000; ++i) correction.observe(100, 1e9, kShortMs);
  EXPECT_EQ(correction.of_short(), WaitCorrection::kMost);
  for (int i = 0; i < 3'000; ++i) correction.observe(100, 0, kShortMs);
  EXPECT_EQ(correction.of_short(), WaitCorrection::kLeast);
  for (int i = 0; i < 1'000; ++i) correction.observe(1'000, 0, kShortMs);
  EXPECT_EQ(correction.beyond(), WaitCorrection::kLeast);
}

// What is short may change; a wait of half of it is one of half of it then, too.
TEST(WaitCorrection, KeepsItsRatioWhenShortIsAnotherTime) {
  WaitCorrection correction;
  for (int i = 0; i < 300; ++i) correction.observe(50, 150, kShortMs);
  const double before = correction.of_short();
  for (int i = 0; i < 10; ++i) correction.observe(500, 1'500, 10 * kShortMs);
  EXPECT_NEAR(correction.of_short(), before, 0.01);
}

}  // namespace
}  // namespace kvist::dispatch::wait_correction_test

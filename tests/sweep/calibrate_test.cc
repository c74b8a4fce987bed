#include "kvist/sweep/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::sweep::calibrate_test {
namespace {

using ::testing::HasSubstr;

TEST(CalibrateOptions, AnswersThatTakeTooLongAreRefusedBeforeAnythingRuns) {
  EXPECT_TRUE(check_calibrate_options({}).has_value());
  EXPECT_TRUE(check_calibrate_options({.gap = std::chrono::milliseconds(20), .tokens = 2'990}).has_value());
  EXPECT_TRUE(check_calibrate_options({.gap = std::chrono::milliseconds(1), .tokens = 10'000}).has_value());
  const Result<void> refused = check_calibrate_options({.tokens = 10'000});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message,
              HasSubstr("an answer of 10000 tokens would take 200.0 s, and each step three times as long; want at most "
                        "60 s: fewer tokens, or a smaller gap"));
  EXPECT_FALSE(calibrate({.tokens = 10'000}).has_value());
}

}  // namespace
}  // namespace kvist::sweep::calibrate_test

#include "kvist/base/student_t.h"

#include <gtest/gtest.h>

namespace kvist::student_t_test {
namespace {

TEST(StudentT, QuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.7062, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.975, 2), 4.3027, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.975, 9), 2.2622, 1e-4);
  EXPECT_NEAR(student_t_quantile(0.025, 9), -2.2622, 1e-4);
  EXPECT_DOUBLE_EQ(student_t_quantile(0.5, 3), 0);
}

}  // namespace
}  // namespace kvist::student_t_test

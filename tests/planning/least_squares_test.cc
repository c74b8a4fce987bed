#include "kvist/planning/least_squares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kvist/base/random.h"
#include "kvist/planning/small_matrix.h"

namespace kvist::planning::least_squares_test {
namespace {

using Point = std::vector<double>;
using Residuals = std::vector<std::vector<double>>;

BatchResiduals one_by_one(std::function<std::vector<double>(const Point&)> residuals) {
  return [residuals](const std::vector<Point>& points) -> Result<Residuals> {
    Residuals all;
    for (const Point& point : points) all.push_back(residuals(point));
    return all;
  };
}

TEST(InverseOf, TimesTheMatrixIsTheUnit) {
  const Matrix matrix = {{4, 1, 0.5}, {1, 3, -0.2}, {0.5, -0.2, 2}};
  const auto inverse = inverse_of(matrix);
  ASSERT_TRUE(inverse);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 3; ++k) sum += matrix[i][k] * (*inverse)[k][j];
      EXPECT_NEAR(sum, i == j ? 1 : 0, 1e-12);
    }
  }
  EXPECT_FALSE(inverse_of({{1, 1}, {1, 1}}));
}

TEST(LeastSquares, RecoversTheParametersOfACurve) {
  // y = a exp(-b x) + c at ten places.
  const auto found = least_squares(
      {{.start = 1, .low = 0, .high = 100}, {.start = 1, .low = 0, .high = 10}, {.start = 1, .low = -10, .high = 10}},
      one_by_one([](const Point& p) {
        std::vector<double> residuals;
        for (int x = 0; x < 10; ++x) {
          residuals.push_back(p[0] * std::exp(-p[1] * x) + p[2] - (5 * std::exp(-0.4 * x) + 2));
        }
        return residuals;
      }),
      {.max_rounds = 60, .first_step = 0.01, .last_step = 1e-6, .progress = {}});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->values[0], 5, 1e-3);
  EXPECT_NEAR(found->values[1], 0.4, 1e-3);
  EXPECT_NEAR(found->values[2], 2, 1e-3);
  EXPECT_LT(found->objective, 1e-6 * found->start_objective);
}

TEST(LeastSquares, NeverLeavesTheBoundsAndStopsAtThem) {
  const std::vector<Variable> variables = {{.start = 2, .low = 1, .high = 3}, {.start = 0, .low = -1, .high = 1}};
  // The best place is (5, 0.5).
  const auto found = least_squares(variables, one_by_one([&](const Point& p) {
                                     for (std::size_t i = 0; i < 2; ++i) {
                                       EXPECT_GE(p[i], variables[i].low);
                                       EXPECT_LE(p[i], variables[i].high);
                                     }
                                     return std::vector<double>{p[0] - 5, 3 * (p[1] - 0.5), 0.1 * (p[0] + p[1] - 5.5)};
                                   }),
                                   {});
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->values[0], 3);
  EXPECT_NEAR(found->values[1], 0.5, 0.02);
}

TEST(LeastSquares, ReportsWhichVariableTheResidualsDoNotDetermine) {
  // Only the sum of the first two matters, the third not at all.
  const auto found = least_squares(
      {{.start = 1, .low = 0, .high = 9}, {.start = 2, .low = 0, .high = 9}, {.start = 3, .low = 0, .high = 9}},
      one_by_one([](const Point& p) {
        const double noise = 0.01;
        return std::vector<double>{p[0] + p[1] - 5, 2 * (p[0] + p[1]) - 10 + noise, 1e-3 * (p[0] - p[1]) + noise, 0.5};
      }),
      {});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->values[2], 3);
  EXPECT_EQ(found->standard_errors[2], std::numeric_limits<double>::infinity());
  EXPECT_LT(found->correlations[0][1], -0.99);
  EXPECT_GT(found->standard_errors[0], 10);
}

TEST(LeastSquares, StandardErrorsAreThoseOfTheLinearCase) {
  // The mean of four values 1, 2, 3, 4: 2.5 with a standard error of sqrt(5 / 3 / 4).
  const auto found = least_squares(
      {{.start = 2, .low = 0, .high = 9}},
      one_by_one([](const Point& p) { return std::vector<double>{p[0] - 1, p[0] - 2, p[0] - 3, p[0] - 4}; }), {});
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->values[0], 2.5, 0.01);
  EXPECT_NEAR(found->standard_errors[0], std::sqrt(5.0 / 3 / 4), 1e-3);
}

/// Residuals with a noise of a third of their size that differs at every point, like those of simulations.
std::vector<double> noisy_residuals(const Point& p, std::uint64_t seed) {
  std::vector<double> residuals;
  const auto key = [](double value) { return static_cast<std::uint64_t>(value * 1e12); };
  RandomStream random(mix_seed({seed, key(p[0]), key(p[1])}));
  for (int x = 0; x < 24; ++x) {
    const double truth = 10 + 0.5 * x;  // the slope matters little
    residuals.push_back((p[0] + p[1] * x - truth) / (0.05 * truth) + random.normal(0, 0.3));
  }
  return residuals;
}

TEST(LeastSquares, FindsItsWayThroughNoise) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const auto found = least_squares({{.start = 14, .low = 1, .high = 50}, {.start = 0.2, .low = 0, .high = 5}},
                                     one_by_one([seed](const Point& p) { return noisy_residuals(p, seed); }),
                                     {.max_rounds = 12, .least_gain = 0.01, .progress = {}});
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->values[0], 10, 1);
    EXPECT_NEAR(found->values[1], 0.5, 0.1);
    EXPECT_LE(found->rounds, 12U);
  }
}

TEST(LeastSquares, PassesErrorsOn) {
  const auto found = least_squares(
      {{.start = 2, .low = 0, .high = 9}},
      [](const std::vector<Point>&) -> Result<Residuals> { return fail(ErrorCode::kInternal, "no"); }, {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "no");
}

}  // namespace
}  // namespace kvist::planning::least_squares_test

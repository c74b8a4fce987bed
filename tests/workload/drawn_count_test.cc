#include "kvist/workload/drawn_count.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace kvist::workload::drawn_count_test {
namespace {

spec::BoundedCount law(const char* text) {
  return spec::parse_count(text, 1, 1'000'000).value();
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(const spec::BoundedCount& count, std::uint64_t seed) {
  RandomStream random(seed);
  constexpr int kDraws = 50'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = draw(count, random);
    EXPECT_GE(value, count.low);
    EXPECT_LE(value, count.high);
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  return {.mean = mean, .deviation = std::sqrt(squares / kDraws - mean * mean)};
}

TEST(DrawnCount, HasTheMomentsOfItsLaw) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Moments geometric = moments_of(law("geometric:4"), seed);
    EXPECT_NEAR(geometric.mean, 4, 0.1);
    EXPECT_NEAR(geometric.deviation, std::sqrt(12.0), 0.15);
    const Moments normal = moments_of(law("normal:512/100"), seed);
    EXPECT_NEAR(normal.mean, 512, 3);
    EXPECT_NEAR(normal.deviation, 100, 2);
    const Moments lognormal = moments_of(law("lognormal:512/300"), seed);
    EXPECT_NEAR(lognormal.mean, 512, 8);
    EXPECT_NEAR(lognormal.deviation, 300, 15);
    EXPECT_NEAR(moments_of(law("3-5"), seed).mean, 4, 0.05);
  }
  std::map<std::uint32_t, int> seen;
  RandomStream random(4);
  for (int i = 0; i < 40'000; ++i) ++seen[draw(law("list:64*3,512"), random)];
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_NEAR(seen[64], 30'000, 500);
}

TEST(DrawnCount, TheMeanIsThatOfWhatIsDrawn) {
  for (const char* text : {"7", "3-5", "geometric:4", "geometric:4:3-6", "geometric:1", "lognormal:512/300:16-600",
                           "normal:50/40:1-100", "list:64*3,512"}) {
    EXPECT_NEAR(mean_of(law(text)), moments_of(law(text), 9).mean, 0.02 * mean_of(law(text))) << text;
  }
}

TEST(DrawnCount, ALawThatHardlyEverFitsEndsAtABound) {
  RandomStream random(1);
  spec::BoundedCount count{.low = 9'000, .high = 9'001, .law = {.kind = spec::CountLawKind::kGeometric, .mean = 2}};
  EXPECT_EQ(draw(count, random), 9'000U);
}

}  // namespace
}  // namespace kvist::workload::drawn_count_test

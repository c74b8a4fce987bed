#include "kvist/routing/output_lengths.h"

#include <gtest/gtest.h>

namespace kvist::routing {
namespace {

OutputProgress at(std::initializer_list<std::uint64_t> tokens) {
  OutputProgress progress;
  for (const std::uint64_t t : tokens) progress.add(t);
  return progress;
}

TEST(OutputLengths, LearnsTheMean) {
  OutputLengths lengths(2'000);
  for (int i = 0; i < 300; ++i) lengths.observe(640);
  EXPECT_NEAR(lengths.mean_tokens(), 672, 40);  // lengths are known to a stretch of 64 tokens
}

TEST(OutputLengths, AnswersOfOneLengthEndInTheOrderOfTheirProgress) {
  OutputLengths lengths;
  for (int i = 0; i < 2'000; ++i) lengths.observe(1'000);
  const OutputProgress progress = at({100, 500, 900});
  const double first = lengths.steps_until_ended(progress, 0.9);
  const double second = lengths.steps_until_ended(progress, 1.9);
  const double third = lengths.steps_until_ended(progress, 2.9);
  EXPECT_NEAR(first, 100, 80);
  EXPECT_NEAR(second, 500, 80);
  EXPECT_NEAR(third, 900, 80);
}

TEST(OutputLengths, ForgetsWhatWas) {
  OutputLengths lengths;
  for (int i = 0; i < 1'000; ++i) lengths.observe(2'000);
  for (int i = 0; i < 3'000; ++i) lengths.observe(200);
  EXPECT_LT(lengths.mean_tokens(), 320);
}

TEST(OutputLengths, MoreEndingsThanRequestsIsTheLongestTimeThereIs) {
  const OutputLengths lengths;
  EXPECT_DOUBLE_EQ(lengths.steps_until_ended(at({10}), 5), static_cast<double>(kStretches * kStretchTokens));
}

TEST(OutputProgress, FollowsRequestsOverTheirStretches) {
  OutputProgress progress;
  progress.add(0);
  progress.advance(0, 63);
  EXPECT_EQ(progress.in_stretch(0), 1U);
  progress.advance(63, 64);
  EXPECT_EQ(progress.in_stretch(0), 0U);
  EXPECT_EQ(progress.in_stretch(1), 1U);
  progress.advance(64, 1'000'000);
  EXPECT_EQ(progress.in_stretch(kStretches - 1), 1U);
  progress.remove(1'000'000);
  EXPECT_EQ(progress.in_stretch(kStretches - 1), 0U);
}

}  // namespace
}  // namespace kvist::routing

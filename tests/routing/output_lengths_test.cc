#include "kvist/routing/output_lengths.h"

#include <gtest/gtest.h>

namespace kvist::routing::output_lengths_test {
namespace {

OutputProgress at(std::initializer_list<std::uint64_t> tokens) {
  OutputProgress progress;
  for (const std::uint64_t t : tokens) progress.add(t);
  return progress;
}

void answer(OutputLengths& lengths, std::uint64_t tokens) {
  lengths.on_progress(0, tokens);
  lengths.observe(tokens);
}

TEST(OutputLengths, BinsFollowEachOther) {
  for (std::size_t i = 0; i < kBins; ++i) EXPECT_EQ(bin_of(bin_begin(i)), i);
  for (std::size_t i = 1; i < kBins; ++i) EXPECT_EQ(bin_of(bin_begin(i) - 1), i - 1);
  EXPECT_EQ(bin_of(~std::uint64_t{0}), kBins - 1);
}

// Answers of one to sixteen tokens, of a chat, and of a model that thinks, are all known to an eighth.
TEST(OutputLengths, LearnsTheMeanOfAnyLength) {
  for (const std::uint64_t tokens : {3, 8, 22, 640, 5'000, 40'000}) {
    OutputLengths lengths;
    for (int i = 0; i < 3'000; ++i) answer(lengths, tokens);
    const auto mean = static_cast<double>(tokens);
    EXPECT_NEAR(lengths.mean_tokens(), mean, 0.07 * mean + 1);
  }
}

TEST(OutputLengths, WhatIsExpectedOfAnAnswerGrowsWithItsProgress) {
  OutputLengths lengths;
  for (int i = 0; i < 1'000; ++i) {
    answer(lengths, 20);
    answer(lengths, 4'000);
  }
  EXPECT_NEAR(lengths.mean_tokens(), 2'010, 150);
  EXPECT_NEAR(lengths.total_tokens(bin_of(0)), lengths.mean_tokens(), 1);
  EXPECT_NEAR(lengths.total_tokens(bin_of(100)), 4'000, 300) << "it is one of the long ones";
  EXPECT_NEAR(lengths.total_tokens(at({0, 0, 100})), 2 * lengths.mean_tokens() + 4'000, 300);
  for (std::size_t i = 1; i < kBins; ++i) EXPECT_GE(lengths.total_tokens(i), lengths.total_tokens(i - 1));
}

// In a fleet that has just begun, the short answers end first. The long ones are under way and count already.
TEST(OutputLengths, AnswersUnderWayCountBeforeTheyEnd) {
  OutputLengths lengths;
  for (int i = 0; i < 100; ++i) answer(lengths, 100);
  const double by_the_ended = lengths.mean_tokens();
  for (int i = 0; i < 300; ++i) lengths.on_progress(0, 2'000);
  answer(lengths, 100);
  EXPECT_GT(lengths.mean_tokens(), 4 * by_the_ended);
}

TEST(OutputLengths, AnswersOfOneLengthEndInTheOrderOfTheirProgress) {
  OutputLengths lengths;
  for (int i = 0; i < 2'000; ++i) answer(lengths, 1'000);
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
  for (int i = 0; i < 1'000; ++i) answer(lengths, 2'000);
  for (int i = 0; i < 3'000; ++i) answer(lengths, 200);
  EXPECT_LT(lengths.mean_tokens(), 320);
}

TEST(OutputLengths, MoreEndingsThanRequestsTakeLongerInProportion) {
  OutputLengths lengths;
  for (int i = 0; i < 2'000; ++i) answer(lengths, 1'000);
  const double one = lengths.steps_until_ended(at({10}), 1);
  EXPECT_NEAR(one, 1'000, 100);
  EXPECT_DOUBLE_EQ(lengths.steps_until_ended(at({10}), 5), 5 * one);
  EXPECT_DOUBLE_EQ(lengths.steps_until_ended(OutputProgress(), 1), 0) << "nobody is there";
}

TEST(OutputProgress, FollowsRequestsOverTheirBins) {
  OutputProgress progress;
  progress.add(0);
  progress.advance(0, 64);
  EXPECT_EQ(progress.in_bin(0), 0U);
  EXPECT_EQ(progress.in_bin(bin_of(64)), 1U);
  progress.advance(64, 71);
  EXPECT_EQ(progress.in_bin(bin_of(64)), 1U);
  progress.add(3);
  EXPECT_EQ(progress.farthest(), bin_of(64));
  std::uint32_t requests = 0;
  progress.for_each([&](std::size_t bin, std::uint32_t count) {
    EXPECT_EQ(progress.in_bin(bin), count);
    requests += count;
  });
  EXPECT_EQ(requests, 2U);
  progress.advance(71, 1'000'000);
  EXPECT_EQ(progress.in_bin(kBins - 1), 1U);
  progress.remove(1'000'000);
  EXPECT_EQ(progress.farthest(), 3U);
  progress.remove(3);
  EXPECT_EQ(progress.farthest(), 0U);
}

}  // namespace
}  // namespace kvist::routing::output_lengths_test

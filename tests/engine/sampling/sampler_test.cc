#include "kvist/engine/sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "kvist/base/random.h"

namespace kvist::engine::sampler_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::map<std::uint32_t, double> probabilities(const std::vector<float>& logits, const SamplingOptions& options) {
  Sampler sampler;
  std::map<std::uint32_t, double> result;
  for (const TokenLogprob& entry : sampler.distribution(logits, options))
    result[entry.token.value()] = std::exp(entry.logprob);
  return result;
}

std::vector<float> log_of(std::initializer_list<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(Sampler, GreedyTakesTheLikeliestAndOfEqualOnesTheFirst) {
  Sampler sampler;
  const std::vector<float> logits{0.5F, 2, -1, 2};
  for (const double uniform : {0.0, 0.5, 0.999})
    EXPECT_EQ(sampler.choose(logits, {.temperature = 0}, uniform), TokenId(1));
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const auto logits = log_of({0.2, 0.8});
  EXPECT_NEAR(probabilities(logits, {})[0], 0.2, 1e-6);
  EXPECT_NEAR(probabilities(logits, {.temperature = 0.5})[0], 0.04 / (0.04 + 0.64), 1e-6);
  EXPECT_NEAR(probabilities(logits, {.temperature = 2})[0], 1 / 3.0, 1e-6);
}

TEST(Sampler, TopKKeepsTheLikeliestAndTheLowerOfEqualOnes) {
  const auto kept = probabilities(log_of({0.1, 0.3, 0.3, 0.3}), {.top_k = 2});
  ASSERT_EQ(kept.size(), 2U);
  EXPECT_NEAR(kept.at(1), 0.5, 1e-6);
  EXPECT_NEAR(kept.at(2), 0.5, 1e-6);
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  const auto logits = log_of({0.1, 0.5, 0.15, 0.25});
  EXPECT_EQ(probabilities(logits, {.top_p = 0.4F}).size(), 1U);
  EXPECT_EQ(probabilities(logits, {.top_p = 0.6F}).size(), 2U);
  EXPECT_EQ(probabilities(logits, {.top_p = 0.8F}).size(), 3U);
  EXPECT_EQ(probabilities(logits, {.top_p = 0}).size(), 1U) << "the likeliest always stays";
  EXPECT_EQ(probabilities(logits, {.top_k = 3, .top_p = 0.7F}).size(), 2U) << "of what top-k left";
}

TEST(Sampler, TopPOfAVocabularyIsTheOneOfASort) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE(seed);
  RandomStream random(seed);
  for (int round = 0; round < 20; ++round) {
    std::vector<float> logits(5'000);
    for (float& logit : logits) logit = static_cast<float>(random.normal(0, 0.2 + 0.2 * round));
    const float top_p = static_cast<float>(random.uniform());
    std::vector<std::uint32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return logits[a] > logits[b]; });
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - logits[order[0]]);
    double reached = 0;
    std::size_t count = 0;
    while (count == 0 || (count < order.size() && reached < top_p * sum * (1 - 1e-12)))
      reached += std::exp(static_cast<double>(logits[order[count++]]) - logits[order[0]]);
    const auto kept = probabilities(logits, {.top_p = top_p});
    ASSERT_NEAR(static_cast<double>(kept.size()), static_cast<double>(count), 1) << "round " << round;
    for (std::size_t i = 0; i + 1 < count; ++i) ASSERT_TRUE(kept.contains(order[i]));
  }
}

TEST(Sampler, MinPKeepsAShareOfTheLikeliest) {
  EXPECT_EQ(probabilities(log_of({0.05, 0.5, 0.2, 0.25}), {.min_p = 0.3F}).size(), 3U);
  EXPECT_EQ(probabilities(log_of({0.05, 0.5, 0.2, 0.25}), {.min_p = 1}).size(), 1U);
}

TEST(Sampler, BiasesBansAndPenalties) {
  const Sampler sampler;
  std::vector<float> logits{1, -1, 2, 0};
  TokenCounts counts;
  counts.add_prompt(std::vector{TokenId(0), TokenId(1)});
  counts.add_answer(TokenId(2));
  counts.add_answer(TokenId(2));
  SamplingOptions options;
  options.presence_penalty = 0.5F;
  options.frequency_penalty = 0.25F;
  options.repetition_penalty = 2;
  options.logit_bias = {{TokenId(3), 4}, {TokenId(77), 9}};
  sampler.adjust(logits, options, &counts, std::vector{TokenId(0)});
  EXPECT_EQ(logits[0], -kInfinity);
  EXPECT_FLOAT_EQ(logits[1], -2);
  EXPECT_FLOAT_EQ(logits[2], 1 - 0.5F - 0.5F);
  EXPECT_FLOAT_EQ(logits[3], 4);
}

TEST(Sampler, WhatIsNoNumberIsNeverChosen) {
  Sampler sampler;
  const std::vector<float> logits{NAN, 1, -kInfinity, 1};
  for (const double uniform : {0.0, 0.49, 0.51, 0.99999}) {
    const TokenId token = sampler.choose(logits, {}, uniform);
    EXPECT_EQ(token, TokenId(uniform < 0.5 ? 1 : 3));
  }
  EXPECT_EQ(sampler.choose(std::vector<float>{NAN, NAN}, {}, 0.5), TokenId(0));
  EXPECT_EQ(sampler.choose(std::vector<float>{0, kInfinity, 0}, {}, 0.5), TokenId(1));
}

// Chi-square of 40,000 draws against the probabilities, 15 degrees of freedom: 37.7 is passed once in a thousand seeds.
TEST(Sampler, DrawsHaveTheDistribution) {
  Sampler sampler;
  RandomStream random(7);
  std::vector<float> logits(16);
  for (float& logit : logits) logit = static_cast<float>(random.normal(0, 1));
  const SamplingOptions options{.temperature = 0.8F};
  auto expected = probabilities(logits, options);
  std::vector<double> drawn(16);
  constexpr int kDraws = 40'000;
  for (std::uint32_t i = 0; i < kDraws; ++i) drawn[sampler.choose(logits, options, sample_uniform(99, i)).value()] += 1;
  double chi_square = 0;
  for (std::uint32_t i = 0; i < 16; ++i) {
    const double mean = expected[i] * kDraws;
    chi_square += (drawn[i] - mean) * (drawn[i] - mean) / mean;
  }
  EXPECT_LT(chi_square, 37.7);
}

// The lossless rule for a draft d: accepted with probability p(d), and what a rejected position has instead is drawn
// from p without d. 14 degrees of freedom: 36.1 is passed once in a thousand seeds, four standard deviations nearly
// never.
TEST(Sampler, ADraftThatIsAcceptedWhereItIsDrawnChangesNoDistribution) {
  Sampler sampler;
  RandomStream random(11);
  std::vector<float> logits(16);
  for (float& logit : logits) logit = static_cast<float>(random.normal(0, 1));
  const SamplingOptions options{.temperature = 1.2F, .min_p = 0.001F};
  auto p = probabilities(logits, options);
  constexpr int kDraws = 40'000;
  for (const std::uint32_t draft : {0U, 5U, 11U}) {
    double accepted = 0;
    std::vector<double> instead(16);
    for (std::uint32_t i = 0; i < kDraws; ++i) {
      const TokenId token = sampler.choose(logits, options, sample_uniform(1'000 + draft, i));
      if (token == TokenId(draft)) {
        ++accepted;
      } else {
        instead[token.value()] += 1;
      }
    }
    const double deviation = std::sqrt(kDraws * p[draft] * (1 - p[draft]));
    EXPECT_LT(std::abs(accepted - kDraws * p[draft]), 4 * deviation) << draft;
    double chi_square = 0;
    for (std::uint32_t i = 0; i < 16; ++i) {
      if (i == draft) continue;
      const double mean = (kDraws - accepted) * p[i] / (1 - p[draft]);
      chi_square += (instead[i] - mean) * (instead[i] - mean) / mean;
    }
    EXPECT_LT(chi_square, 36.1) << draft;
  }
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  Sampler sampler;
  const auto logits = log_of({0.1, 0.5, 0.15, 0.25});
  const TokenLogprobs found = sampler.logprobs(logits, TokenId(0), 2);
  EXPECT_NEAR(found.chosen.logprob, std::log(0.1), 1e-6);
  ASSERT_EQ(found.likeliest.size(), 2U);
  EXPECT_EQ(found.likeliest[0].token, TokenId(1));
  EXPECT_NEAR(found.likeliest[1].logprob, std::log(0.25), 1e-6);
  EXPECT_EQ(sampler.logprobs(logits, TokenId(0), 9).likeliest.size(), 4U);
}

TEST(SampleUniform, DependsOnSeedAndPositionAlone) {
  EXPECT_EQ(sample_uniform(1, 5), sample_uniform(1, 5));
  EXPECT_NE(sample_uniform(1, 5), sample_uniform(1, 6));
  EXPECT_NE(sample_uniform(1, 5), sample_uniform(2, 5));
}

}  // namespace
}  // namespace kvist::engine::sampler_test

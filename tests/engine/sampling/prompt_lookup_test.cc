#include "kvist/engine/sampling/prompt_lookup.h"

#include <gtest/gtest.h>

#include "kvist/base/flat_map.h"
#include "kvist/base/random.h"

namespace kvist::engine::prompt_lookup_test {
namespace {

std::vector<TokenId> tokens(std::initializer_list<std::uint32_t> values) {
  std::vector<TokenId> result;
  for (const std::uint32_t value : values) result.emplace_back(value);
  return result;
}

std::vector<TokenId> proposal(const PromptLookup& lookup, std::uint32_t most) {
  std::vector<TokenId> drafts{TokenId(12345)};
  lookup.propose(most, drafts);
  return drafts;
}

TEST(PromptLookup, ProposesWhatFollowedTheSameTokens) {
  PromptLookup lookup;
  lookup.begin(tokens({1, 2, 3, 4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(proposal(lookup, 2), tokens({4, 5}));
  EXPECT_EQ(proposal(lookup, 99), tokens({4, 5, 6, 1, 2, 3}));
  EXPECT_TRUE(proposal(lookup, 0).empty());
}

TEST(PromptLookup, TheLongestMatchWinsThenTheLatest) {
  PromptLookup lookup;
  lookup.begin(tokens({9, 2, 3, 7, 1, 2, 3, 8, 5, 2, 3, 6, 1, 2, 3}));
  EXPECT_EQ(proposal(lookup, 1), tokens({8})) << "three tokens are the same";
  lookup.begin(tokens({1, 2, 7, 1, 2, 8, 1, 2}));
  EXPECT_EQ(proposal(lookup, 1), tokens({8})) << "the latest of two";
}

TEST(PromptLookup, OnlyKeepsTheTokensIfNothingIsDrafted) {
  PromptLookup lookup;
  lookup.begin(tokens({1, 2, 3, 1, 2}), false);
  lookup.add(TokenId(3));
  EXPECT_TRUE(proposal(lookup, 5).empty());
  EXPECT_EQ(lookup.tokens().size(), 6U);
  lookup.begin(tokens({1, 2, 3, 1, 2}));
  EXPECT_EQ(proposal(lookup, 1), tokens({3})) << "the next request's drafts are";
}

TEST(PromptLookup, NothingWithoutARepetition) {
  PromptLookup lookup;
  lookup.begin(tokens({1, 2, 3, 4}));
  EXPECT_TRUE(proposal(lookup, 4).empty());
  lookup.begin(tokens({1}));
  EXPECT_TRUE(proposal(lookup, 4).empty());
}

TEST(PromptLookup, AnAnswerThatRepeatsItselfIsFound) {
  PromptLookup lookup;
  lookup.begin(tokens({5}));
  for (const std::uint32_t token : {7, 8, 7, 8}) lookup.add(TokenId(token));
  EXPECT_EQ(proposal(lookup, 4), tokens({7, 8}));
}

TEST(PromptLookup, EqualsASearchThroughEverything) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE(seed);
  RandomStream random(seed);
  PromptLookup lookup;
  lookup.begin({});
  std::vector<TokenId> all;
  for (int i = 0; i < 2'000; ++i) {
    const TokenId token(static_cast<std::uint32_t>(random.uniform_int(0, 5)));
    lookup.add(token);
    all.push_back(token);
    std::vector<TokenId> expected;
    for (std::size_t length = PromptLookup::kLongest; length >= PromptLookup::kShortest && expected.empty(); --length) {
      for (std::size_t end = all.size() - 1; all.size() > length && end >= length && expected.empty(); --end) {
        if (std::equal(all.end() - static_cast<std::ptrdiff_t>(length), all.end(),
                       all.begin() + static_cast<std::ptrdiff_t>(end - length))) {
          expected.assign(all.begin() + static_cast<std::ptrdiff_t>(end), all.end());
          if (expected.size() > 3) expected.resize(3);
        }
      }
    }
    ASSERT_EQ(proposal(lookup, 3), expected) << "after " << i + 1 << " tokens";
  }
}

// Each token is the one of many whose pair with the one before comes first in a table with a known multiplier.
TEST(PromptLookup, NoPromptCanMakeItsPairsMeet) {
  constexpr std::size_t kTokens = 3'000;
  RandomStream random(1);
  std::vector<TokenId> prompt{TokenId(1)};
  while (prompt.size() < kTokens) {
    std::uint64_t lowest = ~std::uint64_t{0};
    TokenId next;
    for (int i = 0; i < 200; ++i) {
      const TokenId token(static_cast<std::uint32_t>(random.uniform_int(0, 128'000)));
      const std::uint64_t pair = mix_seed({mix_seed({2, prompt.back().value()}), token.value()});
      if (pair * GoldenSpread::kMultiplier >= lowest) continue;
      lowest = pair * GoldenSpread::kMultiplier;
      next = token;
    }
    prompt.push_back(next);
  }
  PromptLookup lookup;
  lookup.begin(prompt);
  EXPECT_LT(lookup.longest_search(), kTokens / 4);
}

}  // namespace
}  // namespace kvist::engine::prompt_lookup_test

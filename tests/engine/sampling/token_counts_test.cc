#include "kvist/engine/sampling/token_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kvist/base/flat_map.h"

namespace kvist::engine::token_counts_test {
namespace {

TEST(TokenCounts, CountsTheAnswerOnly) {
  TokenCounts counts;
  counts.add_prompt(std::vector{TokenId(5), TokenId(7), TokenId(5)});
  counts.add_answer(TokenId(7));
  counts.add_answer(TokenId(9));
  counts.add_answer(TokenId(9));
  ASSERT_EQ(counts.entries().size(), 3U);
  EXPECT_EQ(counts.entries()[0].token, TokenId(5));
  EXPECT_EQ(counts.entries()[0].in_answer, 0U);
  EXPECT_EQ(counts.entries()[1].in_answer, 1U);
  EXPECT_EQ(counts.entries()[2].in_answer, 2U);
}

// The tokens of a vocabulary that come first in a table with a known multiplier.
TEST(TokenCounts, NoPromptCanMakeItsTokensMeet) {
  constexpr std::uint32_t kVocabulary = 128'000;
  constexpr std::size_t kChosen = 12'000;
  std::vector<TokenId> tokens;
  for (std::uint32_t i = 0; i < kVocabulary; ++i) tokens.emplace_back(i);
  std::ranges::sort(tokens, {}, [](TokenId token) { return token.value() * GoldenSpread::kMultiplier; });
  tokens.resize(kChosen);
  TokenCounts counts;
  counts.add_prompt(tokens);
  EXPECT_LT(counts.longest_search(), kChosen / 10);
}

}  // namespace
}  // namespace kvist::engine::token_counts_test

#include "kvist/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <set>

namespace kvist::tokenizer::tokenizer_test {
namespace {

constexpr SpecialToken kSpecials[] = {SpecialToken::kBeginOfText, SpecialToken::kEndOfTurn, SpecialToken::kBeginHeader,
                                      SpecialToken::kEndHeader};

TEST(ByteTokenizer, GivesOneTokenPerByteAndReadsThemBack) {
  const ByteTokenizer tokenizer;
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
  std::vector<TokenId> tokens;
  tokenizer.encode(all_bytes, tokens);
  ASSERT_EQ(tokens.size(), 256U);
  std::string back;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i].value(), i);
    EXPECT_FALSE(tokenizer.is_special(tokens[i]));
    tokenizer.decode(tokens[i], back);
  }
  EXPECT_EQ(back, all_bytes);
}

TEST(ByteTokenizer, AppendsToWhatIsThere) {
  const ByteTokenizer tokenizer;
  std::vector<TokenId> tokens = {TokenId(7)};
  tokenizer.encode("ab", tokens);
  tokenizer.encode("", tokens);
  EXPECT_EQ(tokens, (std::vector<TokenId>{TokenId(7), TokenId('a'), TokenId('b')}));
}

TEST(ByteTokenizer, EncodesTextsOfEveryLength) {
  const ByteTokenizer tokenizer;
  std::string text;
  for (int length = 0; length < 200; ++length) {
    std::vector<TokenId> tokens = {TokenId(7)};
    tokenizer.encode(text, tokens);
    ASSERT_EQ(tokens.size(), text.size() + 1);
    for (std::size_t i = 0; i < text.size(); ++i)
      ASSERT_EQ(tokens[i + 1], TokenId(static_cast<unsigned char>(text[i]))) << length;
    text.push_back(static_cast<char>(length * 37));
  }
}

TEST(ByteTokenizer, HasDistinctSpecialTokensOutsideOfText) {
  const ByteTokenizer tokenizer;
  std::set<std::uint32_t> ids;
  for (const SpecialToken special : kSpecials) {
    const TokenId id = tokenizer.special(special);
    EXPECT_TRUE(tokenizer.is_special(id));
    EXPECT_GE(id.value(), 256U);
    EXPECT_LT(id.value(), tokenizer.vocabulary_size());
    ids.insert(id.value());
  }
  EXPECT_EQ(ids.size(), 4U);
  EXPECT_EQ(tokenizer.vocabulary_size(), 260U);
}

TEST(ByteTokenizer, DecodesSpecialAndUnknownTokensToNothing) {
  const ByteTokenizer tokenizer;
  std::string out = "x";
  for (const SpecialToken special : kSpecials) tokenizer.decode(tokenizer.special(special), out);
  tokenizer.decode(TokenId(260), out);
  tokenizer.decode(TokenId(0xFFFFFFFF), out);
  EXPECT_EQ(out, "x");
  EXPECT_FALSE(tokenizer.is_special(TokenId(260)));
}

}  // namespace
}  // namespace kvist::tokenizer::tokenizer_test

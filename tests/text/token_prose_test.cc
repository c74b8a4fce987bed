#include "kvist/text/token_prose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kvist/tokenizer/hugging_face_tokenizer.h"

namespace kvist::text::token_prose_test {
namespace {

std::shared_ptr<const tokenizer::Tokenizer> golden(const std::string& name) {
  return tokenizer::load_tokenizer(std::string(KVIST_SOURCE_DIR) + "/tests/golden/vllm/" + name + "/tokenizer.json")
      .value();
}

std::size_t tokens_of(const tokenizer::Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> tokens;
  tokenizer.encode(text, tokens);
  return tokens.size();
}

TEST(TokenProse, HasExactlyAsManyTokensAsItIsAskedFor) {
  for (const char* name : {"llama3", "qwen"}) {
    const auto tokenizer = golden(name);
    const Result<TokenProse> prose = TokenProse::create(tokenizer);
    ASSERT_TRUE(prose.has_value()) << prose.error().message;
    EXPECT_GE(prose->words(), 50U);
    for (const std::size_t n : {0U, 1U, 2U, 17U, 512U, 4'001U}) {
      for (const std::uint64_t seed : {1U, 2U, 3U}) {
        const std::string text = prose->make(seed, n);
        EXPECT_EQ(tokens_of(*tokenizer, text), n) << name << ", seed " << seed;
        EXPECT_EQ(text, prose->make(seed, n));
        const std::string behind = prose->make(seed + 9, n, TokenProse::Begins::kBehindOne);
        EXPECT_EQ(tokens_of(*tokenizer, prose->make(7, 100) + behind), 100 + n);
        EXPECT_EQ(prose->count(text), n);
      }
    }
    std::set<std::string> distinct;
    for (std::uint64_t seed = 0; seed < 100; ++seed) distinct.insert(prose->make(seed, 20));
    EXPECT_EQ(distinct.size(), 100U);
  }
}

TEST(TokenProse, ATokenizerWithoutWordsIsRefused) {
  const auto bytes = std::make_shared<const tokenizer::ByteTokenizer>();
  EXPECT_EQ(TokenProse::create(bytes).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvist::text::token_prose_test

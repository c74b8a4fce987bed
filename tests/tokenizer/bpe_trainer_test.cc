#include "kvist/tokenizer/bpe_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/text/prose.h"
#include "kvist/text/stream_decoder.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"

namespace kvist::tokenizer::bpe_trainer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> encode(const std::string& json, std::string_view text) {
  const auto tokenizer = HuggingFaceTokenizer::parse(json);
  if (!tokenizer) return {tokenizer.error().message};
  std::vector<TokenId> tokens;
  (*tokenizer)->encode(text, tokens);
  EXPECT_EQ(text::decode_text(**tokenizer, tokens), text);
  std::vector<std::string> spellings;
  for (const TokenId token : tokens) spellings.emplace_back((*tokenizer)->spelling(token));
  return spellings;
}

// The list of merges as the document has it.
std::string merges_of(const Result<std::string>& json) {
  if (!json) return json.error().message;
  const std::size_t begin = json->find("\"merges\":") + 9;
  return json->substr(begin, json->rfind("}}") - begin);
}

TEST(BpeTrainer, MergesTheMostFrequentPairsFirst) {
  const std::string text = "abc\nabc\nabc\nab\nab";
  const auto json = train_byte_level_bpe(text, {.vocabulary_size = 258, .special_tokens = {}, .begin_of_text = ""});
  ASSERT_TRUE(json.has_value()) << json.error().message;
  EXPECT_EQ(merges_of(json), R"([["a","b"],["ab","c"]])");
  EXPECT_THAT(encode(*json, "abcab"), ElementsAre("abc", "ab"));
}

TEST(BpeTrainer, OfEquallyFrequentPairsTheSmallerIdsMergeFirst) {
  const auto json =
      train_byte_level_bpe("zy\nba\nzy\nba", {.vocabulary_size = 258, .special_tokens = {}, .begin_of_text = ""});
  EXPECT_EQ(merges_of(json), R"([["b","a"],["z","y"]])");
}

TEST(BpeTrainer, CountsOverlappingPairsOnceWhereTheyMerge) {
  // "aaaa" merges to "aa" "aa" and then to one token; "aaa" to "aa" "a".
  const auto json = train_byte_level_bpe("aaaa\naaaa\naaaa\naaa",
                                         {.vocabulary_size = 258, .special_tokens = {}, .begin_of_text = ""});
  ASSERT_TRUE(json.has_value());
  EXPECT_THAT(encode(*json, "aaaaaaa"), ElementsAre("aaaa", "aa", "a"));
}

TEST(BpeTrainer, GivesAVocabularyOfTheSizeAskedForWithSpecialTokensLast) {
  const BpeTrainerOptions options{.vocabulary_size = 700,
                                  .special_tokens = {"<|begin_of_text|>", "<|eot_id|>"},
                                  .begin_of_text = "<|begin_of_text|>"};
  const auto json = train_byte_level_bpe(text::prose(1, 40'000), options);
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const auto tokenizer = HuggingFaceTokenizer::parse(*json);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->vocabulary_size(), 700U);
  EXPECT_EQ((*tokenizer)->token_id("<|begin_of_text|>"), TokenId(698));
  EXPECT_TRUE((*tokenizer)->is_special(TokenId(699)));
  std::vector<TokenId> tokens;
  (*tokenizer)->encode_completion({.text = "the", .from_messages = {}}, tokens);
  EXPECT_EQ(tokens.front(), TokenId(698));
  std::vector<TokenId> text_tokens;
  const std::string other = text::prose(2, 20'000);
  (*tokenizer)->encode(other, text_tokens);
  EXPECT_LT(text_tokens.size(), other.size() / 2);  // it has learned this language
}

TEST(BpeTrainer, IsTheSameToTheByteAsRecorded) {
  const auto json = train_byte_level_bpe(text::prose(7, 30'000),
                                         {.vocabulary_size = 600, .special_tokens = {"<s>"}, .begin_of_text = "<s>"});
  ASSERT_TRUE(json.has_value());
  std::uint64_t hash = 0xCBF2'9CE4'8422'2325;  // FNV-1a, 64 bits
  for (const char byte : *json) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100'0000'01B3;
  EXPECT_EQ(hash, 17472652770288798220U) << json->size();
}

TEST(BpeTrainer, ErrorsNameTheProblem) {
  EXPECT_THAT(train_byte_level_bpe("ab ab", {.vocabulary_size = 300, .special_tokens = {}, .begin_of_text = ""})
                  .error()
                  .message,
              HasSubstr("the text has pairs for 257 tokens, not for 300"));
  EXPECT_FALSE(
      train_byte_level_bpe("", {.vocabulary_size = 256, .special_tokens = {"<s>"}, .begin_of_text = ""}).has_value());
  EXPECT_FALSE(train_byte_level_bpe("", {.vocabulary_size = 260, .special_tokens = {"<s>", "<s>"}, .begin_of_text = ""})
                   .has_value());
  EXPECT_FALSE(
      train_byte_level_bpe("", {.vocabulary_size = 256, .special_tokens = {}, .begin_of_text = "<s>"}).has_value());
  EXPECT_TRUE(
      train_byte_level_bpe("", {.vocabulary_size = 256, .special_tokens = {}, .begin_of_text = ""}).has_value());
}

}  // namespace
}  // namespace kvist::tokenizer::bpe_trainer_test

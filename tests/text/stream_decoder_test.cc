#include "kvist/text/stream_decoder.h"

#include <gtest/gtest.h>

#include "kvist/base/random.h"
#include "kvist/base/utf8.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "tokenizer/small_tokenizer.h"

namespace kvist::text::stream_decoder_test {
namespace {

const tokenizer::ByteTokenizer kTokenizer;

// The text released by each byte of `bytes` and by finish(), joined by '|'.
std::string decode_steps(std::string_view bytes) {
  StreamDecoder decoder(kTokenizer);
  std::string steps;
  for (const char byte : bytes) {
    steps += decoder.push(TokenId(static_cast<unsigned char>(byte)));
    steps += '|';
  }
  return steps + decoder.finish();
}

TEST(StreamDecoder, PassesAsciiThroughAtOnce) {
  EXPECT_EQ(decode_steps("abc"), "a|b|c|");
}

TEST(StreamDecoder, HoldsACharacterBackUntilItIsWhole) {
  EXPECT_EQ(decode_steps("\xC3\xA9"), "|\xC3\xA9|");
  EXPECT_EQ(decode_steps("\xE2\x82\xAC!"), "||\xE2\x82\xAC|!|");
  EXPECT_EQ(decode_steps("\xF0\x9F\x8C\xB1"), "|||\xF0\x9F\x8C\xB1|");
}

TEST(StreamDecoder, ReplacesBytesThatCanNeverBecomeACharacter) {
  EXPECT_EQ(decode_steps("\xFF"), "|\uFFFD");
  EXPECT_EQ(decode_steps("\x80x"), "|\uFFFDx|");
  EXPECT_EQ(decode_steps("\xC0\xAF"), "||\uFFFD\uFFFD");             // overlong
  EXPECT_EQ(decode_steps("\xED\xA0\x80"), "|||\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(decode_steps("\uFFFD!"), "|||\uFFFD!|");                 // written so
}

TEST(StreamDecoder, ReplacesABrokenOffCharacterOnce) {
  EXPECT_EQ(decode_steps("\xE2\x82!"), "||\uFFFD!|");
  EXPECT_EQ(decode_steps("\xF0\x9F\x8C\xC3\xA9"), "||||\uFFFD\xC3\xA9|");
}

TEST(StreamDecoder, WhatItGivesIsThePrefixOfTheWholeThatIsCertain) {
  const std::uint64_t seed = 20261123;
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  for (int round = 0; round < 2'000; ++round) {
    StreamDecoder decoder(kTokenizer);
    std::vector<TokenId> tokens;
    std::string given;
    for (int i = 0; i < 16; ++i) {
      const std::int64_t byte = random.uniform() < 0.3 ? random.uniform_int(0, 0x7F) : random.uniform_int(0x80, 0xFF);
      tokens.emplace_back(static_cast<std::uint32_t>(byte));
      given += decoder.push(tokens.back());
      const std::string whole = decode_text(kTokenizer, tokens);
      ASSERT_TRUE(whole.starts_with(given));
      ASSERT_EQ(given == whole, !whole.ends_with("\uFFFD"));
    }
    ASSERT_EQ(given + decoder.finish(), decode_text(kTokenizer, tokens));
  }
}

TEST(StreamDecoder, KeepsALeadingSpaceBehindAText) {
  const std::string json = tokenizer::SmallTokenizer::characters({"\u2581", "a", "\u2581a"}).json();
  const auto tokenizer = tokenizer::HuggingFaceTokenizer::parse(json, {}).value();
  const TokenId word = *tokenizer->token_id("\u2581a");
  StreamDecoder of_a_text(*tokenizer);
  EXPECT_EQ(of_a_text.push(word), "a");
  EXPECT_EQ(of_a_text.push(word), " a");
  StreamDecoder of_an_answer(*tokenizer, true);
  EXPECT_EQ(of_an_answer.push(word), " a");
}

TEST(StreamDecoder, FinishReplacesAnUnfinishedCharacter) {
  EXPECT_EQ(decode_steps("a\xF0\x9F"), "a|||\uFFFD");
  StreamDecoder decoder(kTokenizer);
  EXPECT_EQ(decoder.push(TokenId(0xC3)), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, SpecialTokensBringNothingAndBreakNothing) {
  StreamDecoder decoder(kTokenizer);
  EXPECT_EQ(decoder.push(TokenId(0xC3)), "");
  EXPECT_EQ(decoder.push(kTokenizer.special(tokenizer::SpecialToken::kEndOfTurn)), "");
  EXPECT_EQ(decoder.push(TokenId(0xA9)), "\xC3\xA9");
}

TEST(StreamDecoder, EmitsOnlyValidUtf8ForAnyBytes) {
  const std::uint64_t seed = 20240607;
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  for (int round = 0; round < 2'000; ++round) {
    StreamDecoder decoder(kTokenizer);
    std::string text;
    for (int i = 0; i < 24; ++i) {
      // Mostly lead and continuation bytes: that is where mistakes would be.
      const std::int64_t byte = random.uniform() < 0.2 ? random.uniform_int(0, 0x7F) : random.uniform_int(0x80, 0xFF);
      text += decoder.push(TokenId(static_cast<std::uint32_t>(byte)));
    }
    text += decoder.finish();
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t length = utf8_sequence_length(rest);
      ASSERT_GT(length, 0U);
      rest.remove_prefix(length);
    }
  }
}

}  // namespace
}  // namespace kvist::text::stream_decoder_test

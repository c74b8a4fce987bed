#include "kvist/tokenizer/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/base/json.h"

namespace kvist::tokenizer::pre_tokenizer_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> words_of(const std::string& json, std::string_view text, bool begins_document = true) {
  JsonDocument document({.root = "pre_tokenizer"});
  const auto pre_tokenizer = PreTokenizer::read(document.parse(json).value());
  if (!pre_tokenizer) return {pre_tokenizer.error().message};
  Words words;
  words.text = text;
  words.begins_document = begins_document;
  RegexMemory memory;
  pre_tokenizer->apply(words, memory);
  std::vector<std::string> out;
  for (const Words::Word& word : words.words) out.emplace_back(words.text.substr(word.begin, word.end - word.begin));
  return out;
}

std::string split(const std::string& pattern, const std::string& behavior, bool invert = false) {
  return R"({"type":"Split","pattern":)" + pattern + R"(,"behavior":")" + behavior + R"(","invert":)" +
         (invert ? "true}" : "false}");
}

// The examples of Hugging Face's documentation of SplitDelimiterBehavior.
TEST(PreTokenizer, SplitsAsDocumented) {
  const std::string text = "the-final--countdown";
  const std::string dash = R"({"String":"-"})";
  EXPECT_THAT(words_of(split(dash, "Removed"), text), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(words_of(split(dash, "Isolated"), text), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(words_of(split(dash, "MergedWithPrevious"), text), ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(words_of(split(dash, "MergedWithNext"), text), ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(words_of(split(dash, "Contiguous"), text), ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(PreTokenizer, InvertTakesWhatDoesNotMatchForTheDelimiter) {
  EXPECT_THAT(words_of(split(R"({"Regex":"[a-z]+"})", "Removed", true), "ab, cd!"), ElementsAre("ab", "cd"));
  EXPECT_THAT(words_of(split(R"({"Regex":"[a-z]+"})", "MergedWithPrevious", true), "ab, cd!"),
              ElementsAre("ab, ", "cd!"));
}

TEST(PreTokenizer, EmptyMatchesMoveOnByACharacter) {
  EXPECT_THAT(words_of(split(R"({"Regex":"x*"})", "Isolated"), "\u00e9xx\u20ac"),
              ElementsAre("\u00e9", "xx", "\u20ac"));
}

// DeepSeek's tokenizers before V3 look for it. The words are those of Hugging Face's library.
TEST(PreTokenizer, WhiteSpaceAtTheEndOfALineTakesOneSearchPerRun) {
  const std::string step = split(R"({"Regex":"\\s+$"})", "Isolated");
  EXPECT_THAT(words_of(step, "a  b  "), ElementsAre("a  b", "  "));
  EXPECT_THAT(words_of(step, "a \n\n b"), ElementsAre("a", " \n", "\n b"));
  EXPECT_THAT(words_of(step, " \n \nb \n"), ElementsAre(" \n ", "\nb", " \n"));
  EXPECT_THAT(words_of(step, "\u3000\n"), ElementsAre("\u3000\n"));
  const std::string run(1 << 20, ' ');
  EXPECT_THAT(words_of(step, run + "x"), ElementsAre(run + "x"));
}

TEST(PreTokenizer, EachStepCutsTheWordsOfTheOneBefore) {
  const std::string json = R"({"type":"Sequence","pretokenizers":[)" + split(R"({"String":"b"})", "Isolated") + "," +
                           split(R"x({"Regex":"a+(?!b)"})x", "Isolated") + "]}";
  // The look-ahead of the second does not see the "b" that the first has cut off.
  EXPECT_THAT(words_of(json, "caab"), ElementsAre("c", "aa", "b"));
}

TEST(PreTokenizer, DigitsAndPunctuation) {
  EXPECT_THAT(words_of(R"({"type":"Digits","individual_digits":true})", "a12b3"), ElementsAre("a", "1", "2", "b", "3"));
  EXPECT_THAT(words_of(R"({"type":"Digits","individual_digits":false})", "a12b\u0663\u00bd"),
              ElementsAre("a", "12", "b", "\u0663\u00bd"));
  EXPECT_THAT(words_of(R"({"type":"Punctuation","behavior":"Isolated"})", "a,b\u3002$"),
              ElementsAre("a", ",", "b", "\u3002", "$"));
}

TEST(PreTokenizer, WhitespaceKinds) {
  EXPECT_THAT(words_of(R"({"type":"WhitespaceSplit"})", " a,b\tc\u3000d "), ElementsAre("a,b", "c", "d"));
  EXPECT_THAT(words_of(R"({"type":"Whitespace"})", "Hey friend! It's e\u0301_1"),
              ElementsAre("Hey", "friend", "!", "It", "'", "s", "e\u0301_1"));
  // Rust's word characters, not Oniguruma's.
  EXPECT_THAT(words_of(R"({"type":"Whitespace"})", "a\u200d\u200cb\u00b2"), ElementsAre("a\u200d\u200cb", "\u00b2"));
}

TEST(PreTokenizer, MetaspacePrependsAsItsSchemeSays) {
  const auto metaspace = [](const std::string& scheme, const std::string& split) {
    return R"({"type":"Metaspace","replacement":"_","prepend_scheme":")" + scheme + R"(","split":)" + split + "}";
  };
  EXPECT_THAT(words_of(metaspace("always", "true"), "a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(words_of(metaspace("always", "true"), " a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(words_of(metaspace("never", "true"), "a b"), ElementsAre("a", "_b"));
  EXPECT_THAT(words_of(metaspace("first", "false"), "a b"), ElementsAre("_a_b"));
  EXPECT_THAT(words_of(metaspace("first", "false"), "a b", false), ElementsAre("a_b"));
  // A word that an earlier step has made the first is not the text's beginning.
  const std::string behind_spaces =
      R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},)" + metaspace("first", "true") + "]}";
  EXPECT_THAT(words_of(behind_spaces, "a b"), ElementsAre("_a", "b"));
  EXPECT_THAT(words_of(behind_spaces, " a b"), ElementsAre("a", "b"));
}

TEST(PreTokenizer, ByteLevelPutsASpaceBeforeWordsThatHaveNone) {
  const std::string json = R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true,"trim_offsets":true})";
  EXPECT_THAT(words_of(json, "Hi there  it's"), ElementsAre(" Hi", " there", " ", " it", "'s"));
  EXPECT_THAT(words_of(json, " Hi"), ElementsAre(" Hi"));
  EXPECT_THAT(words_of(json, ""), ElementsAre());
}

}  // namespace
}  // namespace kvist::tokenizer::pre_tokenizer_test

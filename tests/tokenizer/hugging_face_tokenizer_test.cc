#include "kvist/tokenizer/hugging_face_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "kvist/base/random.h"
#include "kvist/text/stream_decoder.h"
#include "tokenizer/small_tokenizer.h"

namespace kvist::tokenizer::hugging_face_tokenizer_test {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<HuggingFaceTokenizer> parse(const std::string& json, const HuggingFaceTokenizerOptions& options = {}) {
  auto tokenizer = HuggingFaceTokenizer::parse(json, options);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().message);
  return *std::move(tokenizer);
}

// The spellings of the tokens of a text.
std::vector<std::string> spell(const Tokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  std::vector<std::string> spellings;
  for (const TokenId token : tokens) spellings.emplace_back(tokenizer.spelling(token));
  return spellings;
}
std::vector<std::string> plain(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> tokens;
  tokenizer.encode(text, tokens);
  return spell(tokenizer, tokens);
}
std::vector<std::string> prompt(const Tokenizer& tokenizer, const std::string& text,
                                const std::vector<RenderedPrompt::Range>& from_messages = {}) {
  std::vector<TokenId> tokens;
  tokenizer.encode_prompt({.text = text, .from_messages = from_messages}, tokens);
  return spell(tokenizer, tokens);
}
std::string round_trip(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> tokens;
  tokenizer.encode(text, tokens);
  text::StreamDecoder decoder(tokenizer);
  std::string streamed;
  for (const TokenId token : tokens) streamed += decoder.push(token);
  streamed += decoder.finish();
  EXPECT_EQ(text::decode_text(tokenizer, tokens), streamed);
  return streamed;
}

TEST(HuggingFaceTokenizer, MergesByRankAndFromTheLeft) {
  const auto tokenizer = parse(SmallTokenizer::bytes().merge("b", "c").merge("a", "b").merge("a", "a").json());
  EXPECT_THAT(plain(*tokenizer, "abc"), ElementsAre("a", "bc"));
  EXPECT_THAT(plain(*tokenizer, "ab"), ElementsAre("ab"));
  EXPECT_THAT(plain(*tokenizer, "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(plain(*tokenizer, "aab"), ElementsAre("a", "ab"));
}

TEST(HuggingFaceTokenizer, OfTwoMergesOfOnePairTheLaterCounts) {
  const auto tokenizer = parse(SmallTokenizer::bytes().merge("a", "b").merge("b", "c").merge("a", "b").json());
  EXPECT_THAT(plain(*tokenizer, "abc"), ElementsAre("a", "bc"));
}

TEST(HuggingFaceTokenizer, IgnoreMergesTakesWordsOfTheVocabularyWhole) {
  SmallTokenizer small = SmallTokenizer::bytes().merge("b", "c");
  small.tokens.emplace_back("abc");
  EXPECT_THAT(plain(*parse(small.json()), "abc"), ElementsAre("a", "bc"));
  small.model_options = R"(,"ignore_merges":true)";
  EXPECT_THAT(plain(*parse(small.json()), "abc"), ElementsAre("abc"));
}

TEST(HuggingFaceTokenizer, ShortAndLongWordsMergeAlikeAndAsTheDefinitionSays) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  for (int round = 0; round < 60; ++round) {
    // Random merges over three letters.
    SmallTokenizer small = SmallTokenizer::bytes();
    std::vector<std::string> pieces = {"a", "b", "c"};
    std::map<std::pair<std::string, std::string>, int> ranks;
    for (int i = 0; i < 25; ++i) {
      const auto any = [&] { return pieces[static_cast<std::size_t>(random.uniform_int(0, std::ssize(pieces) - 1))]; };
      const std::string left = any();
      const std::string right = any();
      if (left.size() + right.size() > 9 || !ranks.try_emplace({left, right}, i).second) continue;
      small.merge(left, right);
      pieces.push_back(left + right);
    }
    const auto tokenizer = parse(small.json());
    std::string word;
    const std::int64_t length = random.uniform_int(1, round % 2 == 0 ? 40 : 300);
    for (std::int64_t i = 0; i < length; ++i) word += static_cast<char>('a' + random.uniform_int(0, 2));
    // Straight from the definition: the first of the least ranks, one merge at a time.
    std::vector<std::string> expected;
    for (const char c : word) expected.emplace_back(1, c);
    while (true) {
      std::size_t best = expected.size();
      for (std::size_t i = 0; i + 1 < expected.size(); ++i) {
        const auto rank = ranks.find({expected[i], expected[i + 1]});
        if (rank == ranks.end()) continue;
        if (best == expected.size() || rank->second < ranks.at({expected[best], expected[best + 1]})) best = i;
      }
      if (best == expected.size()) break;
      expected[best] += expected[best + 1];
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    EXPECT_EQ(plain(*tokenizer, word), expected) << word;
    EXPECT_EQ(plain(*tokenizer, word), expected) << "from the cache: " << word;
  }
}

TEST(HuggingFaceTokenizer, PlainTextNeverBecomesASpecialToken) {
  SmallTokenizer small = SmallTokenizer::bytes().merge("<", "e").merge("<e", ">");
  small.model_options = R"(,"ignore_merges":true)";
  small.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\s+"},)"
                        R"("behavior":"Isolated","invert":false},{"type":"ByteLevel","use_regex":false,)"
                        R"("add_prefix_space":false}]})";
  std::string json = small.json();
  // The merged token is declared special under its own id.
  const std::string added = fmt::format(R"({{"id":{},"content":"<e>","special":true}})", small.tokens.size() - 1);
  json.replace(json.find("\"added_tokens\":[]"), 17, "\"added_tokens\":[" + added + "]");
  const auto tokenizer = parse(json);
  EXPECT_THAT(plain(*tokenizer, "<e>"), ElementsAre("<e", ">"));
  EXPECT_THAT(prompt(*tokenizer, "a<e>b"), ElementsAre("a", "<e>", "b"));
  EXPECT_TRUE(tokenizer->is_special(*tokenizer->token_id("<e>")));
}

TEST(HuggingFaceTokenizer, RecognisesAddedTokensOnlyWhereTheyTouchNothingOfTheMessages) {
  SmallTokenizer small = SmallTokenizer::bytes();
  small.added = {{"<a>"}, {"<a><b>"}, {"<b>"}};
  const auto tokenizer = parse(small.json());
  EXPECT_THAT(prompt(*tokenizer, "<a><b>"), ElementsAre("<a><b>"));
  EXPECT_THAT(prompt(*tokenizer, "<a><b>", {{0, 6}}), ElementsAre("<", "a", ">", "<", "b", ">"));
  EXPECT_THAT(prompt(*tokenizer, "<a><b>", {{3, 6}}), ElementsAre("<a>", "<", "b", ">"));
  EXPECT_THAT(prompt(*tokenizer, "<a><b>", {{0, 1}}), ElementsAre("<", "a", ">", "<b>"));
  EXPECT_THAT(prompt(*tokenizer, "<a><b>", {{2, 3}}), ElementsAre("<", "a", ">", "<b>"));
  EXPECT_THAT(prompt(*tokenizer, "x<a>x<b>x", {{0, 1}, {4, 5}, {8, 9}}), ElementsAre("x", "<a>", "x", "<b>", "x"));
}

TEST(HuggingFaceTokenizer, TemplateAndMessageTextBesideEachOtherAreOneText) {
  SmallTokenizer small = SmallTokenizer::bytes().merge("a", "b");
  small.added = {{"<s>"}};
  const auto tokenizer = parse(small.json());
  EXPECT_THAT(prompt(*tokenizer, "<s>ab", {{4, 5}}), ElementsAre("<s>", "ab"));
}

TEST(HuggingFaceTokenizer, MarksSurviveNormalization) {
  SmallTokenizer small = SmallTokenizer::characters({"▁", "<", "a", ">", "x", "\u00e9"});
  small.added = {{"<a>", R"("special":true,"normalized":true)"}};
  small.normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace","pattern":{"String":" "},)"
                     R"("content":"\u2581"}]})";
  const auto tokenizer = parse(small.json());
  // The text before the tokens becomes shorter or longer by normalization.
  const std::string before = "e\u0301 x";
  const std::size_t at = before.size();
  EXPECT_THAT(prompt(*tokenizer, before + "<a><a>", {{at + 3, at + 6}}),
              ElementsAre("\u00e9", "▁", "x", "<a>", "<", "a", ">"));
  EXPECT_THAT(prompt(*tokenizer, before + "<a><a>", {{0, at}, {at, at + 3}}),
              ElementsAre("\u00e9", "▁", "x", "<", "a", ">", "<a>"));
}

TEST(HuggingFaceTokenizer, FlagsOfAddedTokens) {
  SmallTokenizer small = SmallTokenizer::bytes();
  small.added = {{"<l>", R"("lstrip":true)"}, {"<r>", R"("rstrip":true)"}, {"word", R"("single_word":true)"}};
  for (auto& added : small.added) added.flags += R"(,"special":false,"normalized":false)";
  const auto tokenizer = parse(small.json());
  EXPECT_THAT(prompt(*tokenizer, "a \n<l> b"), ElementsAre("a", "<l>", "Ġ", "b"));
  EXPECT_THAT(prompt(*tokenizer, "a <r> \nb"), ElementsAre("a", "Ġ", "<r>", "b"));
  EXPECT_THAT(prompt(*tokenizer, "a<r> <l>b"), ElementsAre("a", "<r>", "<l>", "b"));
  EXPECT_THAT(prompt(*tokenizer, "word,word"), ElementsAre("word", ",", "word"));
  EXPECT_EQ(prompt(*tokenizer, "sword").size(), 5U);
  EXPECT_EQ(prompt(*tokenizer, "words").size(), 5U);
  EXPECT_FALSE(tokenizer->is_special(*tokenizer->token_id("word")));
}

TEST(HuggingFaceTokenizer, CompletionsGetWhatThePostProcessorAdds) {
  SmallTokenizer small = SmallTokenizer::bytes();
  small.added = {{"<s>"}, {"</s>"}};
  small.post_processor =
      R"({"type":"Sequence","processors":[{"type":"ByteLevel","trim_offsets":false},{"type":"TemplateProcessing",)"
      R"("single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
      R"({"SpecialToken":{"id":"</s>","type_id":0}}],"pair":[],)"
      R"("special_tokens":{"<s>":{"id":"<s>","ids":[256],"tokens":["<s>"]},)"
      R"("</s>":{"id":"</s>","ids":[257],"tokens":["</s>"]}}}]})";
  const auto tokenizer = parse(small.json());
  std::vector<TokenId> tokens;
  tokenizer->encode_completion({.text = "a<s>", .from_messages = {}}, tokens);
  EXPECT_THAT(spell(*tokenizer, tokens), ElementsAre("<s>", "a", "<s>", "</s>"));
  EXPECT_EQ(text::decode_text(*tokenizer, tokens), "a");
}

TEST(HuggingFaceTokenizer, CharactersWithoutATokenBecomeBytes) {
  const auto tokenizer = parse(SmallTokenizer::characters({"▁", "a", "b"}).merge("▁", "a").json());
  EXPECT_THAT(plain(*tokenizer, "a a"), ElementsAre("▁a", "▁a"));
  EXPECT_THAT(plain(*tokenizer, "€"), ElementsAre("▁", "<0xE2>", "<0x82>", "<0xAC>"));
  EXPECT_THAT(plain(*tokenizer, ""), ElementsAre());
  EXPECT_EQ(round_trip(*tokenizer, "a € b\n ab"), "a € b\n ab");
  EXPECT_EQ(round_trip(*tokenizer, " a"), " a");
}

TEST(HuggingFaceTokenizer, UnknownCharactersFuseIfTheModelSaysSo) {
  SmallTokenizer small = SmallTokenizer::characters({"a"});
  small.normalizer = "null";
  small.model_options = R"(,"unk_token":"<unk>","fuse_unk":true)";
  EXPECT_THAT(plain(*parse(small.json()), "xyaz"), ElementsAre("<unk>", "a", "<unk>"));
  small.model_options = R"(,"unk_token":"<unk>","fuse_unk":false)";
  EXPECT_THAT(plain(*parse(small.json()), "xya"), ElementsAre("<unk>", "<unk>", "a"));
}

TEST(HuggingFaceTokenizer, MergesAcrossASpaceInTheMiddleOfATokenAreKept) {
  // "a▁b" is a token: the cut before "▁" must not come after an "a".
  const auto tokenizer =
      parse(SmallTokenizer::characters({"▁", "a", "b", "c"}).merge("a", "▁").merge("a▁", "b").json());
  EXPECT_THAT(plain(*tokenizer, "a b"), ElementsAre("▁", "a▁b"));
  EXPECT_THAT(plain(*tokenizer, "c b"), ElementsAre("▁", "c", "▁", "b"));
}

TEST(HuggingFaceTokenizer, TheSpaceBeforeTheFirstWordIsDroppedOnce) {
  const auto tokenizer = parse(SmallTokenizer::characters({"▁", "a"}).merge("▁", "a").json());
  std::string bytes;
  const TokenId word = *tokenizer->token_id("▁a");
  EXPECT_FALSE(tokenizer->decode_first(TokenId(1'000'000), bytes));
  EXPECT_TRUE(tokenizer->decode_first(word, bytes));
  tokenizer->decode(word, bytes);
  EXPECT_EQ(bytes, "a a");
}

TEST(HuggingFaceTokenizer, MetaspaceFirstIsForTheBeginningOfTheText) {
  SmallTokenizer small = SmallTokenizer::characters({"\u2581", "a", "b"});
  small.pre_tokenizer = R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":true})";
  small.normalizer = R"({"type":"Strip","strip_left":true,"strip_right":true})";
  const auto tokenizer = HuggingFaceTokenizer::parse(small.json(), {}).value();
  const auto spelled = [&](std::string_view text) {
    std::vector<TokenId> tokens;
    tokenizer->encode(text, tokens);
    std::string out;
    for (const TokenId token : tokens) out += tokenizer->spelling(token);
    return out;
  };
  EXPECT_EQ(spelled("a b"), "\u2581a\u2581b");
  EXPECT_EQ(spelled(" a b"), "a\u2581b") << "what was stripped was the beginning";
}

TEST(HuggingFaceTokenizer, MetaspacePreTokenizerAndDecoder) {
  SmallTokenizer small = SmallTokenizer::characters({"▁", "a", "b"}).merge("▁", "a");
  small.normalizer = "null";
  small.pre_tokenizer = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})";
  small.decoder = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})";
  small.added = {{"<s>"}};
  const auto tokenizer = parse(small.json());
  EXPECT_THAT(prompt(*tokenizer, "a a"), ElementsAre("▁a", "▁a"));
  EXPECT_THAT(prompt(*tokenizer, "<s>a a"), ElementsAre("<s>", "a", "▁a"));
  EXPECT_EQ(round_trip(*tokenizer, "a  b"), "a  b");
}

TEST(HuggingFaceTokenizer, BrokenUtf8CountsAsReplacementCharacters) {
  const auto tokenizer = parse(SmallTokenizer::bytes().json());
  EXPECT_EQ(round_trip(*tokenizer, "a\xFF\xE2\x82z\xC0\x80\xED\xA0\x80"),
            "a\uFFFD\uFFFDz\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(prompt(*tokenizer, "\xFFz", {{1, 2}}), plain(*tokenizer, "\uFFFDz"));
}

TEST(HuggingFaceTokenizer, DeterministicOverThreadsAndOtherTokenizers) {
  const auto first = parse(SmallTokenizer::bytes().merge("a", "b").json());
  const auto second = parse(SmallTokenizer::bytes().merge("b", "a").json());
  // The same word in turn: the tokenizers' caches are independent.
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(plain(*first, "aba"), ElementsAre("ab", "a"));
    EXPECT_THAT(plain(*second, "aba"), ElementsAre("a", "ba"));
  }
  std::vector<std::vector<std::string>> results(4);
  {
    std::vector<std::jthread> threads;
    for (auto& result : results) {
      threads.emplace_back([&first, &result] {
        for (int i = 0; i < 200; ++i) result = plain(*first, "ab abab ba " + std::to_string(i % 7));
      });
    }
  }
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

TEST(HuggingFaceTokenizer, LongHostileTextsTakeNoLongerThanTheirLength) {
  // Quadratic algorithms would need minutes for each of these.
  SmallTokenizer small = SmallTokenizer::bytes().merge("a", "a").merge("aa", "aa").merge("aaaa", "aaaa");
  const auto gpt2 = parse(small.json());
  small.pre_tokenizer = words_of_bytes(kLlama3Words);
  small.added = {{"<|special|>"}};
  const auto llama3 = parse(small.json());
  constexpr std::size_t kBytes = 1 << 18;
  std::vector<std::string> texts = {std::string(kBytes, 'a'),  std::string(kBytes, ' ') + "x",
                                    std::string(kBytes, '\n'), std::string(kBytes, '1'),
                                    std::string(kBytes, '!'),  std::string(kBytes, '\'')};
  for (const std::string_view part : {" \n", "\n a", "\r\n!", "<|special|", " \t\u3000", "\u00e9 '"}) {
    std::string& text = texts.emplace_back();
    while (text.size() < kBytes) text += part;
  }
  for (const std::string& text : texts) {
    EXPECT_EQ(round_trip(*gpt2, text), text);
    EXPECT_EQ(round_trip(*llama3, text), text);
    EXPECT_EQ(prompt(*llama3, text, {{0, text.size()}}), plain(*llama3, text));
  }
}

TEST(HuggingFaceTokenizer, KnowsItsEndTokens) {
  SmallTokenizer small = SmallTokenizer::bytes();
  small.added = {{"<eos>"}};
  const auto tokenizer = parse(small.json(), {.end_tokens = {TokenId(256)}});
  EXPECT_EQ(tokenizer->special(SpecialToken::kEndOfTurn), TokenId(256));
  EXPECT_THAT(tokenizer->end_tokens(), ElementsAre(TokenId(256)));
  EXPECT_FALSE(HuggingFaceTokenizer::parse(small.json(), {.end_tokens = {TokenId(257)}}).has_value());
}

}  // namespace
}  // namespace kvist::tokenizer::hugging_face_tokenizer_test

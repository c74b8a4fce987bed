// tokenizer.json files that are broken, inconsistent or unsupported: each is an error that names the problem and its
// place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "kvist/tokenizer/regex.h"
#include "tokenizer/small_tokenizer.h"

namespace kvist::tokenizer::hostile_tokenizer_test {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& json) {
  const auto tokenizer = HuggingFaceTokenizer::parse(json);
  return tokenizer ? "none" : tokenizer.error().message;
}

// The document of a small tokenizer with one part of its text replaced.
std::string with(const std::string& from, const std::string& to) {
  SmallTokenizer small = SmallTokenizer::bytes().merge("a", "b").merge("ab", "c");
  small.added = {{"<s>"}};
  std::string json = small.json();
  const std::size_t at = json.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return json.replace(at, from.size(), to);
}

TEST(HostileTokenizer, TheDocumentTheyAreMadeOfIsSound) {
  EXPECT_EQ(error_of(with("\"1.0\"", "\"1.0\"")), "none");
}

TEST(HostileTokenizer, TruncatedAnywhere) {
  const std::string json = with("\"1.0\"", "\"1.0\"");
  for (std::size_t length = 0; length < json.size(); length += length < 3'000 ? 1 : 7) {
    EXPECT_THAT(error_of(json.substr(0, length)), HasSubstr("not valid JSON"));
  }
}

TEST(HostileTokenizer, DeepNestingIsRefusedWithoutRecursion) {
  for (const char bracket : {'[', '{'}) {
    std::string deep;
    for (int i = 0; i < 1'000'000; ++i) deep += bracket == '[' ? "[" : "{\"a\":";
    EXPECT_THAT(error_of(deep), HasSubstr("not valid JSON"));
  }
  std::string sequence = R"({"type":"NFC"})";
  for (int i = 0; i < 9; ++i) sequence = R"({"type":"Sequence","normalizers":[)" + sequence + "]}";
  EXPECT_THAT(error_of(with(R"("normalizer":null)", R"("normalizer":)" + sequence)), HasSubstr("nested more than 8"));
}

TEST(HostileTokenizer, ClaimsOfHugeIdsCostNoMemory) {
  EXPECT_THAT(error_of(with("\"abc\":257", "\"abc\":1000000000")),
              HasSubstr("model.vocab.abc: expected an integer from 0 to 4194303, got 1000000000"));
  EXPECT_THAT(error_of(with("\"abc\":257", "\"abc\":-1")), HasSubstr("got -1"));
  EXPECT_THAT(error_of(with("\"abc\":257", "\"abc\":1e3")), HasSubstr("expected an integer"));
  EXPECT_THAT(error_of(with("\"abc\":257", "\"abc\":\"257\"")), HasSubstr("got a string"));
  EXPECT_THAT(error_of(with("\"id\":258", "\"id\":99999999999999999999")), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(error_of(with("\"id\":258", "\"id\":4194304")), HasSubstr("added_tokens[0].id"));
}

TEST(HostileTokenizer, DuplicateIdsAndTokens) {
  EXPECT_THAT(error_of(with("\"abc\":257", "\"abc\":97")), HasSubstr("id 97 is that of \"a\" too"));
  EXPECT_THAT(error_of(with("\"abc\":257", "\"ab\":257")), HasSubstr("model.vocab.ab: the same token twice"));
  EXPECT_THAT(error_of(with("\"id\":258", "\"id\":97")),
              HasSubstr("added_tokens[0]: \"<s>\" with id 97: the id is that of \"a\""));
  EXPECT_THAT(error_of(with("\"<s>\"", "\"abc\"")), HasSubstr("the token has id 257 already"));
  EXPECT_THAT(error_of(with("\"version\":\"1.0\"", "\"model\":{}")), HasSubstr("model: given more than once"));
}

TEST(HostileTokenizer, MergesOfUnknownTokens) {
  EXPECT_THAT(error_of(with(R"(["a","b"])", R"(["a","nothing"])")),
              HasSubstr("model.merges[0]: \"nothing\" is not in the vocabulary"));
  EXPECT_THAT(error_of(with(R"(["ab","c"])", R"(["c","ab"])")),
              HasSubstr("model.merges[1]: \"cab\" is not in the vocabulary"));
  EXPECT_THAT(error_of(with(R"(["a","b"])", R"(["a"])")), HasSubstr("fewer than two"));
  EXPECT_THAT(error_of(with(R"(["a","b"])", R"(["a","b","c"])")), HasSubstr("more than two"));
  EXPECT_THAT(error_of(with(R"(["a","b"])", R"("ab")")), HasSubstr("not two tokens with a space"));
  EXPECT_THAT(error_of(with(R"(["a","b"])", R"("a b c")")), HasSubstr("not two tokens with a space"));
  EXPECT_THAT(error_of(with(R"(["a","b"])", "7")), HasSubstr("model.merges[0]: expected an array, got 7"));
  EXPECT_EQ(error_of(with(R"(["a","b"])", R"("a b")")), "none");
}

TEST(HostileTokenizer, VocabulariesThatCannotEncodeEveryText) {
  EXPECT_THAT(error_of(with("\"z\":122", "\"zz\":122")), HasSubstr("no token for byte 0x7A"));
  EXPECT_THAT(error_of(with("\"vocab\":{", "\"vocab\":{\"\":300,")), HasSubstr("a token without text"));
  SmallTokenizer small = SmallTokenizer::characters({"a"});
  small.tokens[7] = "b";
  EXPECT_THAT(error_of(small.json()), HasSubstr("no token <0x06>"));
  small.model_options = "";
  EXPECT_THAT(error_of(small.json()), HasSubstr("neither bytes nor unk_token"));
  small.model_options = R"(,"unk_token":"<none>")";
  EXPECT_THAT(error_of(small.json()), HasSubstr("model.unk_token: \"<none>\" is not in the vocabulary"));
  EXPECT_THAT(error_of(R"({"model":{"vocab":{},"merges":[]}})"), HasSubstr("a vocabulary without tokens"));
}

TEST(HostileTokenizer, WhatIsNotSupportedIsRefusedByNameAndPlace) {
  EXPECT_THAT(error_of(with("\"type\":\"BPE\"", "\"type\":\"Unigram\"")),
              HasSubstr("model.type: models of type \"Unigram\""));
  EXPECT_THAT(error_of(with("\"dropout\":null", "\"dropout\":0.1")), HasSubstr("model.dropout"));
  EXPECT_THAT(error_of(with("\"dropout\":null", "\"end_of_word_suffix\":\"</w>\"")),
              HasSubstr("model.end_of_word_suffix: \"</w>\""));
  EXPECT_THAT(error_of(with("\"dropout\":null", "\"new_idea\":true")), HasSubstr("model: \"new_idea\" is not known"));
  EXPECT_THAT(
      error_of(with(R"("normalizer":null)", R"("normalizer":{"type":"Precompiled","precompiled_charsmap":""})")),
      HasSubstr("normalizer: normalizers of type \"Precompiled\""));
  EXPECT_THAT(
      error_of(with(R"("normalizer":null)", R"("normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},7]})")),
      HasSubstr("normalizer.normalizers[1]: expected an object, got"));
  EXPECT_THAT(error_of(with(R"({"type":"ByteLevel","add)", R"({"type":"UnicodeScripts","add)")),
              HasSubstr("pre_tokenizer: pre-tokenizers of type \"UnicodeScripts\""));
  EXPECT_THAT(error_of(with(R"("decoder":{"type":"ByteLevel"})", R"("decoder":{"type":"CTC"})")),
              HasSubstr("decoder: decoders of type \"CTC\""));
  EXPECT_THAT(error_of(with(R"("post_processor":null)", R"("post_processor":{"type":"BertProcessing"})")),
              HasSubstr("post-processors of type \"BertProcessing\""));
}

TEST(HostileTokenizer, StepsThatEnlargeTextsExcessively) {
  std::string steps;
  for (int i = 0; i < 40; ++i) {
    steps += std::string(i > 0 ? "," : "") + R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaa"})";
  }
  EXPECT_THAT(
      error_of(with(R"("normalizer":null)", R"("normalizer":{"type":"Sequence","normalizers":[)" + steps + "]}")),
      HasSubstr("normalizer.normalizers[2]: up to here a text may become 64 times longer"));
  EXPECT_THAT(error_of(with(R"("decoder":{"type":"ByteLevel"})",
                            R"("decoder":{"type":"Sequence","decoders":[)" + steps + "]}")),
              HasSubstr("decoder.decoders[2]: up to here"));
  EXPECT_THAT(error_of(with(R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true})",
                            R"({"type":"Metaspace","replacement":"123456789"})")),
              HasSubstr("pre_tokenizer: up to here"));
}

TEST(HostileTokenizer, PostProcessorsOfUnknownTokens) {
  const auto processor = [](const std::string& single, const std::string& ids) {
    return with(R"("post_processor":null)", R"("post_processor":{"type":"TemplateProcessing","single":[)" + single +
                                                R"(],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[)" + ids +
                                                R"(],"tokens":["<s>"]}}})");
  };
  const std::string text = R"({"Sequence":{"id":"A","type_id":0}})";
  const std::string special = R"({"SpecialToken":{"id":"<s>","type_id":0}})";
  EXPECT_EQ(error_of(processor(special + "," + text, "258")), "none");
  EXPECT_THAT(error_of(processor(special + "," + text, "259")), HasSubstr("post_processor: id 259"));
  EXPECT_THAT(error_of(processor(special, "258")), HasSubstr("without the text itself"));
  EXPECT_THAT(error_of(processor(text + "," + text, "258")), HasSubstr("single[1].Sequence.id"));
  EXPECT_THAT(error_of(processor(R"({"SpecialToken":{"id":"<x>","type_id":0}})", "258")), HasSubstr("\"<x>\""));
}

std::string regex_error(std::string_view pattern) {
  const auto regex = Regex::compile(pattern);
  return regex ? "none" : regex.error().message;
}

TEST(HostileTokenizer, CatastrophicExpressionsAreRefused) {
  EXPECT_THAT(regex_error(R"((\s+)+[x])"), HasSubstr("backtracking"));
  EXPECT_THAT(regex_error("(a|a)*[b]"), HasSubstr("backtracking"));
  EXPECT_THAT(regex_error(R"(\s+\z)"), HasSubstr("backtracking"));  // quadratic
  EXPECT_THAT(regex_error(R"(((((a{900}){900}){900}){900}))"), HasSubstr("regular expression"));
  EXPECT_THAT(regex_error(std::string(300, '(') + std::string(300, ')')), HasSubstr("nested"));
  EXPECT_THAT(regex_error(std::string(1 << 20, 'a')), HasSubstr("1048576 bytes"));
  EXPECT_THAT(error_of(with(R"("normalizer":null)",
                            R"("normalizer":{"type":"Replace","pattern":{"Regex":"(\\s+)+[x]"},"content":""})")),
              HasSubstr("normalizer.pattern.Regex: a regular expression whose"));
}

TEST(HostileTokenizer, ExpressionsThatMeanSomethingElseInPcreAreRefused) {
  for (const char* pattern :
       {R"(\h)",         R"(\R)",     R"(\X)",     R"(\b)",       R"(\K)",    R"(\1)", "(?R)",    "(*ACCEPT)",
        "(?C1)",         "[a&&b]",    "[a[b]]",    "[[:alpha:]]", R"([\S])",  "a{,3}", "\\",      "[a",
        R"(\x{110000})", "(?s:a.b)",  "(?x: a b)", "(?#a)",       "a(?i)b|c", "a**",   "a{2}{3}", "+",
        "(?<a",          R"([\s-z])", R"([!-\w])", R"(\pL)"}) {
    EXPECT_NE(regex_error(pattern), "none") << pattern;
  }
}

TEST(HostileTokenizer, PropertiesThatOnlyPcreKnowsAreRefused) {
  for (const char* pattern : {R"(\p{sc:Han})", R"(\p{Script=Han})", R"(\p{scx:Han})", R"(\p{Xan})", R"(\p{L&})",
                              R"(\p{Nonsense})", R"(\p{})", R"(\p{L)"}) {
    EXPECT_NE(regex_error(pattern), "none") << pattern;
  }
}

/// The words that a search cuts a text into, with what is between them: as Split has it with "Isolated".
std::string cut(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  if (!regex) return regex.error().message;
  RegexMemory memory;
  Regex::Match match;
  std::string out;
  std::size_t at = 0;
  while (at < text.size() && regex->find(text, at, memory, match) == Regex::Outcome::kFound &&
         match.end > match.begin) {
    if (match.begin > at) out.append(text.substr(at, match.begin - at)).append("|");
    out.append(text.substr(match.begin, match.end - match.begin)).append(match.end < text.size() ? "|" : "");
    at = match.end;
  }
  return out.append(text.substr(at));
}

// All of these are what Hugging Face's library (0.23) gives.
TEST(Regex, WhatFollowsAnIntervalIsOnigurumas) {
  EXPECT_EQ(cut(R"(\p{N}{1,3}+)", "12345a12"), "12345|a|12") << "one to three, once or more";
  EXPECT_EQ(cut(R"(\p{N}{1,3})", "12345a12"), "123|45|a|12");
  EXPECT_EQ(cut("a{2}+", "aaaaab"), "aaaa|ab");
  EXPECT_EQ(cut("a{2,}+", "aaaaab"), "aaaaa|b");
  EXPECT_EQ(cut("xa{1,3}+ab", "xaaab"), "xaaab") << "not possessive";
  EXPECT_EQ(cut("x(?:ab){1,2}+c", "xababababc"), "xababababc");
  EXPECT_EQ(cut("x[ab]{2,3}+c", "xaabbabbc"), "xaabbabbc");
  EXPECT_EQ(cut("\u00e9{2}+c", "\u00e9\u00e9\u00e9c"), "\u00e9|\u00e9\u00e9c") << "of a whole character";
  EXPECT_EQ(cut("a{2}?", "aaaab"), "aa|aa|b") << "twice or not at all, which is no match of b's";
  EXPECT_EQ(cut("a{2}?b", "aab"), "aab");
  EXPECT_EQ(cut("xa{2}?b", "xb"), "xb");
  EXPECT_EQ(cut("a{2,}?", "aaaab"), "aa|aa|b") << "lazy";
  EXPECT_EQ(cut("a++b|a?+c|a*+d", "aab"), "aab") << "possessive";
  EXPECT_EQ(cut("a{1}x{2", "ax{2"), "ax{2");
}

TEST(Regex, TheOptionMLetsADotMatchALineEnd) {
  EXPECT_EQ(cut("(?m:a.b)", "xa\nb"), "x|a\nb");
  EXPECT_EQ(cut("a.b", "xa\nb"), "xa\nb");
  EXPECT_EQ(cut("(?m)a.b|c", "xa\nb"), "x|a\nb");
  EXPECT_EQ(cut("(?mi:A.(?-m:.))", "xa\n\n"), "xa\n\n");
  EXPECT_EQ(cut("(?mi:A.(?-m:.))", "xa\nc"), "x|a\nc");
}

TEST(Regex, AScriptIsWithoutItsExtensions) {
  const std::string mark = "\u30fc";  // of both kana: Common with extensions
  EXPECT_EQ(cut(R"(\p{Hiragana})", mark + "\u3042"), mark + "|\u3042");
  EXPECT_EQ(cut(R"(\P{Katakana})", mark + "\u30a2"), mark + "|\u30a2");
  EXPECT_EQ(cut(R"([\p{han}\p{Hani}]+)", "a\u4e00\u3007b"), "a|\u4e00\u3007|b");
  EXPECT_EQ(cut(R"(\p{^L}|\p{l_u})", "a1A"), "a|1|A");
  EXPECT_EQ(cut(R"(\p{Old_Italic}\p{Any}\p{White Space})", "x\U00010300a\u3000"), "x|\U00010300a\u3000");
}

TEST(Regex, WordsAreThoseOfTheLibraryThatSearches) {
  EXPECT_EQ(cut(R"(\w+)", "a\u00b2\u00b9\u00bd\u2074\u200d"), "a\u00b2\u00b9\u00bd|\u2074\u200d");
  EXPECT_EQ(cut(R"(\W)", "a\u00b2\u200d"), "a\u00b2|\u200d");
  EXPECT_EQ(cut(R"([^\w]+)", "a\u00b2\u200d"), "a|\u00b2\u200d") << "a class has others";
  EXPECT_EQ(cut(R"([\w]+)", "a\u00b2\u200d"), "a|\u00b2\u200d");
}

TEST(Regex, WhiteSpaceIsUnicodes) {
  RegexMemory memory;
  Regex::Match match;
  const auto space = Regex::compile(R"(\s)").value();
  const auto not_space = Regex::compile(R"([^\s\p{L}])").value();
  const std::string vowel_separator = "\u180E";  // a space to PCRE2, none to Unicode
  EXPECT_EQ(space.find(vowel_separator, 0, memory, match), Regex::Outcome::kNone);
  EXPECT_EQ(not_space.find(vowel_separator, 0, memory, match), Regex::Outcome::kFound);
  EXPECT_EQ(space.find("x\u0085", 0, memory, match), Regex::Outcome::kFound);
  EXPECT_EQ(match.begin, 1U);
  EXPECT_EQ(match.end, 3U);
}

TEST(LoadTokenizer, ErrorsNameTheFile) {
  const auto missing = load_tokenizer("/nonexistent/tokenizer.json");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("/nonexistent/tokenizer.json"));
}

}  // namespace
}  // namespace kvist::tokenizer::hostile_tokenizer_test

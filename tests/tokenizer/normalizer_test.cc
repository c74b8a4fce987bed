#include "kvist/tokenizer/normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "kvist/base/json.h"
#include "kvist/base/random.h"
#include "kvist/tokenizer/unicode.h"

namespace kvist::tokenizer::normalizer_test {
namespace {

MarkedText normalized(const std::string& json, MarkedText text) {
  JsonDocument document({.root = "normalizer"});
  const auto normalizer = Normalizer::read(document.parse(json).value());
  if (!normalizer) return {normalizer.error().message, {}};
  RegexMemory memory;
  normalizer->apply(text, memory);
  return text;
}
std::string normalized(const std::string& json, const std::string& text) {
  return normalized(json, MarkedText{text, {}}).text;
}
std::string sequence(const std::string& steps) {
  return R"({"type":"Sequence","normalizers":[)" + steps + "]}";
}

TEST(Normalizer, TellsWhetherTheBeginningIsStillThere) {
  const auto keeps = [](const std::string& json, std::string_view text) {
    JsonDocument document({.root = "normalizer"});
    RegexMemory memory;
    MarkedText normalized{std::string(text), {}};
    return Normalizer::read(document.parse(json).value())->apply(normalized, memory);
  };
  const std::string strip = R"({"type":"Strip","strip_left":true,"strip_right":true})";
  EXPECT_TRUE(keeps(strip, "a "));
  EXPECT_FALSE(keeps(strip, " a"));
  EXPECT_FALSE(keeps(sequence(strip + R"(,{"type":"Lowercase"})"), " a"));
  EXPECT_FALSE(keeps(R"({"type":"Replace","pattern":{"String":"x"},"content":""})", "xa"));
  EXPECT_TRUE(keeps(R"({"type":"Replace","pattern":{"String":"x"},"content":""})", "ax"));
  EXPECT_TRUE(keeps(R"({"type":"Replace","pattern":{"String":"x"},"content":"y"})", "xa"));
  EXPECT_TRUE(keeps(R"({"type":"Prepend","prepend":"y"})", "a"));
}

TEST(Normalizer, Steps) {
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", "ab"), "_ab");
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", ""), "");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"aa"},"content":"b"})", "aaaaa"), "bba");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"Regex":"\\s+"},"content":" "})", "a \n\tb\u3000"), "a b ");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "A\u00c9\u0130\u1e9eZ"), "a\u00e9i\u0307\u00dfz");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":true})", " \u00a0a b\u3000\n"), "a b");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":false,"strip_right":true})", "  "), "");
  EXPECT_EQ(normalized(sequence(R"({"type":"Lowercase"},{"type":"Prepend","prepend":"X"})"), "A"), "Xa");
}

TEST(Normalizer, NormalForms) {
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "e\u0301 \u212b \u1112\u1161\u11ab \u0344"),
            "\u00e9 \u00c5 \ud55c \u0308\u0301");
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "\u00e9\ud55c"), "e\u0301\u1112\u1161\u11ab");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "\ufb01\u00b2\uff21"), "fi2A");
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", "\u1e9b\u0323"), "s\u0323\u0307");
}

TEST(Normalizer, ATextInPartsIsNormalizedAsAWhole) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  for (int round = 0; round < 3'000; ++round) {
    std::string text;
    for (std::int64_t n = random.uniform_int(0, 20); n > 0; --n) {
      switch (random.uniform_int(0, 4)) {
        case 0:
          append_code_point(static_cast<std::uint32_t>(random.uniform_int('a', 'z')), text);
          break;
        case 1:
          append_code_point(static_cast<std::uint32_t>(random.uniform_int(0x80, 0x2FF)), text);
          break;
        case 2:
          for (std::int64_t marks = random.uniform_int(1, round % 50 == 0 ? 100 : 4); marks > 0; --marks) {
            append_code_point(static_cast<std::uint32_t>(random.uniform_int(0x300, 0x36F)), text);
          }
          break;
        case 3:
          append_code_point(static_cast<std::uint32_t>(random.uniform_int(0x1100, 0x11FF)), text);
          break;
        default:
          append_code_point(static_cast<std::uint32_t>(random.uniform_int(0x900, 0x1FFF)), text);
      }
    }
    utf8proc_uint8_t* whole = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    EXPECT_EQ(normalized(R"({"type":"NFC"})", text), reinterpret_cast<const char*>(whole));
    std::free(whole);
  }
}

TEST(Normalizer, AMegabyteOfCombiningMarksTakesLinearTime) {
  std::string text = "a";
  std::string expected = "\u1EA1";  // the first dot below composes
  while (text.size() < 1'000'000) text += "\u0307\u0323";
  const std::size_t marks = (text.size() - 1) / 4;
  for (std::size_t i = 1; i < marks; ++i) expected += "\u0323";
  for (std::size_t i = 0; i < marks; ++i) expected += "\u0307";
  EXPECT_EQ(normalized(R"({"type":"NFC"})", text), expected);
}

TEST(Normalizer, MarksGoWithTheirText) {
  const std::string json = sequence(R"({"type":"NFC"},{"type":"Replace","pattern":{"String":" "},"content":"___"},)"
                                    R"({"type":"Prepend","prepend":">"},{"type":"Strip"})");
  // "e" is the template's, its accent a user's: what they compose to counts as the user's.
  const MarkedText out = normalized(json, MarkedText{"xe\u0301 y z", {{2, 4}, {5, 6}}});
  EXPECT_EQ(out.text, ">x\u00e9___y___z");
  EXPECT_EQ(out.marks, (std::vector<Range>{{2, 4}, {7, 8}}));
}

TEST(MarkedText, RewritingKeepsMarksLikeAMarkPerByteWould) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  const auto below = [&](std::size_t most) {
    return static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(most)));
  };
  for (int round = 0; round < 3'000; ++round) {
    MarkedText text{std::string(below(30), 'a'), {}};
    std::string flags(text.text.size(), '.');
    for (std::size_t at = below(5); at < text.text.size();) {
      const std::size_t end = std::min(text.text.size(), at + 1 + below(5));
      text.marks.push_back({at, end});
      for (; at < end; ++at) flags[at] = '#';
      at += below(6);
    }
    Rewriter rewriter(text);
    std::string expected;
    while (rewriter.at() < text.text.size()) {
      const std::size_t begin = rewriter.at();
      const std::size_t end = std::min(text.text.size(), begin + below(6));
      if (below(1) == 0) {
        rewriter.copy_until(end);
        expected += flags.substr(begin, end - begin);
      } else {
        const std::size_t length = below(4);
        rewriter.replace_until(end, std::string(length, 'b'));
        const bool marked = flags.substr(begin, end - begin).find('#') != std::string::npos;
        expected += std::string(length, marked ? '#' : '.');
      }
    }
    const MarkedText out = rewriter.finish();
    std::string actual(out.text.size(), '.');
    for (const Range& mark : out.marks) {
      ASSERT_LT(mark.begin, mark.end);
      for (std::size_t i = mark.begin; i < mark.end; ++i) actual[i] = '#';
    }
    ASSERT_EQ(actual, expected);
    ASSERT_TRUE(std::ranges::is_sorted(out.marks, {}, &Range::begin));
  }
}

}  // namespace
}  // namespace kvist::tokenizer::normalizer_test

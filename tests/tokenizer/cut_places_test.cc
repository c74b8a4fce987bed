// Where a text may be cut so that the tokens of its parts are those of the whole.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/text/prose.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "tokenizer/small_tokenizer.h"

namespace kvist::tokenizer::cut_places_test {
namespace {

constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Merges across every kind of boundary, so that the tokens show where words end.
SmallTokenizer merging() {
  SmallTokenizer small = SmallTokenizer::bytes();
  small.merge("t", "h").merge("th", "e").merge(" ", "the").merge("e", " ").merge("e", "\n").merge("\n", "\n");
  small.merge(" ", " ").merge("  ", "\n").merge("'", "s").merge("\n", "t").merge("1", "2").merge(".", "\n");
  small.added = {{"<|end|>"}};
  return small;
}

std::unique_ptr<HuggingFaceTokenizer> made(const SmallTokenizer& small) {
  auto tokenizer = HuggingFaceTokenizer::parse(small.json());
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

std::vector<std::size_t> places_in(const Tokenizer& tokenizer, const RenderedPrompt& prompt) {
  std::vector<std::size_t> places;
  tokenizer.cut_places(prompt, places);
  return places;
}

std::vector<TokenId> tokens_of(const Tokenizer& tokenizer, RenderedPrompt prompt) {
  std::vector<TokenId> tokens;
  tokenizer.encode_prompt(prompt, tokens);
  return tokens;
}

void expect_independent(const Tokenizer& tokenizer, const std::string& text, std::size_t& places) {
  const std::vector<TokenId> whole = tokens_of(tokenizer, {.text = text, .from_messages = {}});
  for (const std::size_t place : places_in(tokenizer, {.text = text, .from_messages = {}})) {
    ++places;
    std::vector<TokenId> parts = tokens_of(tokenizer, {.text = text.substr(0, place), .from_messages = {}});
    const std::vector<TokenId> second = tokens_of(tokenizer, {.text = text.substr(place), .from_messages = {}});
    parts.insert(parts.end(), second.begin(), second.end());
    ASSERT_EQ(parts, whole) << "cut at " << place << " of " << text;
  }
}

TEST(CutPlaces, MakeIndependentPartsOfAnyText) {
  constexpr std::uint64_t kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  RandomStream random(kSeed);
  const std::vector<std::string> pieces = {"the",
                                           "the ",
                                           "e ",
                                           "e\n",
                                           "e\r\n",
                                           "e\t",
                                           " ",
                                           "  ",
                                           "\n",
                                           "\n\n",
                                           "'s",
                                           "'ll ",
                                           "12",
                                           "1 2",
                                           ".\n",
                                           "!  ",
                                           "é",
                                           "e\xCC\x81 ",
                                           "日本",
                                           "\xC2\xA0",
                                           "e\xE3\x80\x80",
                                           "a'",
                                           "'S ",
                                           "<|end|>",
                                           "<|end",
                                           "ſ ",
                                           "A\xCC\x8A\n",
                                           "x \xCC\x88",
                                           "\xE2\x84\xAB ",
                                           "\x0B",
                                           "z\x0C"};
  std::size_t places = 0;
  for (const std::string& pattern : {std::string(), words_of_bytes(kLlama3Words), words_of_bytes(kQwen2)}) {
    for (const std::string normalizer : {"null", R"({"type":"NFC"})"}) {
      SmallTokenizer small = merging();
      if (!pattern.empty()) small.pre_tokenizer = pattern;
      small.normalizer = normalizer;
      const auto tokenizer = made(small);
      for (int round = 0; round < 60; ++round) {
        std::string text;
        while (text.size() < 6'000) text += pieces[random.next() % pieces.size()];
        expect_independent(*tokenizer, text, places);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(places, 1'000U);
}

TEST(CutPlaces, DependOnTheTextUpToThere) {
  const auto tokenizer = made(merging());
  const std::string text = text::prose(5, 20'000);
  const std::vector<std::size_t> all = places_in(*tokenizer, {.text = text, .from_messages = {}});
  ASSERT_GT(all.size(), 15U);
  const std::size_t half = all[all.size() / 2];
  const std::vector<std::size_t> some =
      places_in(*tokenizer, {.text = text.substr(0, half + 1) + "<|end|> other", .from_messages = {}});
  ASSERT_GT(some.size(), all.size() / 2);
  EXPECT_TRUE(std::equal(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(all.size() / 2 + 1), all.begin()));
}

TEST(CutPlaces, AreNoneWhereWordsDependOnWhatIsAround) {
  const RenderedPrompt text{.text = text::prose(5, 9'000), .from_messages = {}};
  EXPECT_FALSE(places_in(*made(merging()), text).empty());
  const auto refused = [&](const auto& change) {
    SmallTokenizer small = merging();
    change(small);
    return places_in(*made(small), text).empty();
  };
  EXPECT_TRUE(refused([](SmallTokenizer& s) {
    s.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false})";
  })) << "the text is one word";
  EXPECT_TRUE(refused([](SmallTokenizer& s) {
    s.pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})";
  }));
  EXPECT_TRUE(refused([](SmallTokenizer& s) { s.pre_tokenizer = words_of_bytes(R"(\p{L}+\s*|\s+|[^\p{L}\s]+)"); }));
  EXPECT_TRUE(refused([](SmallTokenizer& s) { s.normalizer = R"({"type":"NFKC"})"; }));
  EXPECT_TRUE(refused([](SmallTokenizer& s) { s.added.push_back({"ww", R"("special":false,"single_word":true)"}); }));
  EXPECT_TRUE(refused([](SmallTokenizer& s) { s.added.push_back({"ww", R"("special":false,"normalized":true)"}); }));
}

TEST(CutPlaces, EndAtARunOfSpaceThatASearchMayGiveUpIn) {
  const auto tokenizer = made(merging());
  const std::string text = text::prose(5, 5'000) + std::string(100'000, ' ') + text::prose(6, 5'000);
  for (const std::size_t place : places_in(*tokenizer, {.text = text, .from_messages = {}})) EXPECT_LT(place, 5'001U);
}

}  // namespace
}  // namespace kvist::tokenizer::cut_places_test

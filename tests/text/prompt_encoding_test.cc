#include "kvist/text/prompt_encoding.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "tokenizer/small_tokenizer.h"

namespace kvist::text::prompt_encoding_test {
namespace {

// Bytes as tokens, <s> before every completion, and added words with every flag there is.
class PromptEncodingTest : public ::testing::Test {
 protected:
  PromptEncodingTest() {
    tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::bytes();
    small.added = {{"<s>"},
                   {"<tool>"},
                   {"<l>", R"("special":true,"normalized":false,"lstrip":true)"},
                   {"<r>", R"("special":true,"normalized":false,"rstrip":true)"},
                   {"word", R"("special":false,"normalized":false,"single_word":true)"}};
    small.post_processor =
        R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},)"
        R"({"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[256],"tokens":["<s>"]}}})";
    auto parsed = tokenizer::HuggingFaceTokenizer::parse(small.json());
    if (!parsed) throw std::runtime_error(parsed.error().message);
    tokenizer_ = *std::move(parsed);
  }

  // Tokens by their spellings, with | between them.
  [[nodiscard]] std::string encoded(tokenizer::RenderedPrompt prompt, const PromptEncoding& how) const {
    std::string out;
    for (const TokenId token : encode_prompt(*tokenizer_, std::move(prompt), how)) {
      if (!out.empty()) out += '|';
      out += tokenizer_->spelling(token);
    }
    return out;
  }

  std::unique_ptr<tokenizer::HuggingFaceTokenizer> tokenizer_;
};

TEST_F(PromptEncodingTest, SpecialTokensOfUsersAreSpecialOrText) {
  const tokenizer::RenderedPrompt prompt{.text = "<s>a<s>", .from_messages = {{3, 7}}};
  EXPECT_EQ(encoded(prompt, {.specials = true}), "<s>|a|<s>");
  EXPECT_EQ(encoded(prompt, {.specials = false}), "<s>|a|<|s|>");
  EXPECT_EQ(encoded(completion_prompt("<s>"), {.specials = true, .framed = true}), "<s>|<s>");
  EXPECT_EQ(encoded(completion_prompt("<s>"), {.specials = false, .framed = true}), "<s>|<|s|>");
}

TEST_F(PromptEncodingTest, FlagsOfAddedTokensHoldInWhatUsersWrite) {
  const auto both = [&](const std::string& text) { return encoded(completion_prompt(text), {.specials = true}); };
  EXPECT_EQ(both("a  <l>b"), "a|<l>|b") << "it takes the space before it";
  EXPECT_EQ(both("a<r>  b"), "a|<r>|b") << "and this one that behind";
  EXPECT_EQ(both("sword word"), "s|w|o|r|d|\xC4\xA0|word") << "a single word only";
}

TEST_F(PromptEncodingTest, KeepsTheLastTokensWithinTheFrame) {
  const auto cut = [&](std::uint32_t tokens, Truncation::Side side, bool framed = true) {
    return encoded(completion_prompt("abcd"),
                   {.framed = framed, .truncation = Truncation{.tokens = tokens, .side = side}});
  };
  using Side = Truncation::Side;
  EXPECT_EQ(cut(3, Side::kDefault), "<s>|c|d") << "Hugging Face's library cuts before it frames";
  EXPECT_EQ(cut(3, Side::kDefault, false), "b|c|d");
  EXPECT_EQ(cut(3, Side::kKeepLast), "b|c|d");
  EXPECT_EQ(cut(3, Side::kKeepFirst), "<s>|a|b");
  EXPECT_EQ(cut(5, Side::kDefault), "<s>|a|b|c|d");
  EXPECT_EQ(cut(9, Side::kKeepFirst), "<s>|a|b|c|d");
  EXPECT_EQ(cut(0, Side::kDefault), "");
}

TEST_F(PromptEncodingTest, CutsTokensThatWereGivenAsSuch) {
  const std::vector<TokenId> tokens = {TokenId(1), TokenId(2), TokenId(3)};
  const auto cut = [&](const std::optional<Truncation>& truncation) {
    std::vector<TokenId> left = tokens;
    truncate(left, truncation);
    return left;
  };
  EXPECT_EQ(cut(std::nullopt), tokens);
  EXPECT_EQ(cut(Truncation{.tokens = 2}), (std::vector<TokenId>{TokenId(2), TokenId(3)}));
  EXPECT_EQ(cut(Truncation{.tokens = 2, .side = Truncation::Side::kKeepFirst}),
            (std::vector<TokenId>{TokenId(1), TokenId(2)}));
}

TEST_F(PromptEncodingTest, MarksMatterWhereverTheyChangeTheTokens) {
  EXPECT_FALSE(tokenizer_->marks_matter(completion_prompt("no look-alike < s > here")));
  EXPECT_TRUE(tokenizer_->marks_matter(completion_prompt("a <s> b")));
  EXPECT_FALSE(tokenizer_->marks_matter({.text = "<s>a", .from_messages = {{3, 4}}})) << "the template's own";
  EXPECT_TRUE(tokenizer_->marks_matter({.text = "<s>a", .from_messages = {{2, 4}}})) << "half the template's own";
  // Property: where they do not matter, the tokens are the same without them.
  constexpr std::uint64_t kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  RandomStream random(kSeed);
  const std::string pieces[] = {"<s>", "<to", "ol>", "<l>", " ", "word", "x", "<r>", "s>", "<"};
  int unmarked = 0;
  for (int i = 0; i < 2000; ++i) {
    tokenizer::RenderedPrompt prompt;
    for (auto parts = random.uniform_int(1, 6); parts > 0; --parts) {
      const std::size_t begin = prompt.text.size();
      prompt.text += pieces[static_cast<std::size_t>(random.uniform_int(0, 9))];
      if (random.uniform_int(0, 1) == 1) prompt.from_messages.push_back({begin, prompt.text.size()});
    }
    if (tokenizer_->marks_matter(prompt)) continue;
    ++unmarked;
    EXPECT_EQ(encoded(prompt, {.specials = true}), encoded(prompt, {.specials = false})) << prompt.text;
  }
  EXPECT_GT(unmarked, 200);
}

TEST(PromptReadingTest, NumbersAreOneToOne) {
  for (std::uint8_t number = 0; number < PromptReading::kNumbers; ++number)
    EXPECT_EQ(PromptReading::of_number(number).number(), number);
  EXPECT_EQ(PromptReading{}.number(), 0);
}

}  // namespace
}  // namespace kvist::text::prompt_encoding_test

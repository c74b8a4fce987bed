#include "kvist/text/token_prose.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "kvist/base/random.h"
#include "kvist/text/vocabulary.h"

namespace kvist::text {
namespace {

/// With so many of the prose's own words the tokenizer's are not looked through.
constexpr std::size_t kEnoughWords = 200;
constexpr std::size_t kMostWords = 2'000;
constexpr std::size_t kShortestWord = 3;
constexpr std::size_t kTriedTokens = 5'000;

bool is_word(std::string_view text, std::size_t shortest) {
  return text.size() >= shortest && std::ranges::all_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
}

}  // namespace

Result<TokenProse> TokenProse::create(std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  TokenProse prose(std::move(tokenizer));
  prose.find_words();
  if (prose.first_words_.empty() || prose.words_.size() < 2) {
    return fail(ErrorCode::kUnsupported, "the tokenizer has no words of one token, of which to make texts");
  }
  KVIST_TRY_VOID(prose.try_words());
  return prose;
}

void TokenProse::consider(const std::string& word) {
  if (is_word(word, 1) && count(word) == 1) first_words_.push_back(word);
  // Behind a word and a space, and before another one.
  if (is_word(word, kShortestWord) && count("a " + word + " " + word) == count("a") + 2) words_.push_back(word);
}

void TokenProse::find_words() {
  using Words = std::span<const vocabulary::Word>;
  for (const Words list : {Words(vocabulary::kThings), Words(vocabulary::kPlaces), Words(vocabulary::kPeople),
                           Words(vocabulary::kAdjectives), Words(vocabulary::kTransitive)}) {
    for (const vocabulary::Word word : list) consider(std::string(word));
  }
  const auto enough = [this] { return words_.size() >= kEnoughWords && first_words_.size() >= kEnoughWords; };
  for (std::uint32_t id = 0; id < tokenizer_->vocabulary_size() && !enough(); ++id) {
    std::string text;
    tokenizer_->decode(TokenId(id), text);
    if (text.starts_with(' ')) text.erase(0, 1);
    consider(text);
  }
  for (std::vector<std::string>* const list : {&first_words_, &words_}) {
    std::ranges::sort(*list);
    list->erase(std::unique(list->begin(), list->end()), list->end());
    if (list->size() > kMostWords) list->resize(kMostWords);
  }
}

Result<void> TokenProse::try_words() const {
  const std::string first = make(1, kTriedTokens);
  const std::string both = first + make(2, kTriedTokens, Begins::kBehindOne);
  if (count(first) == kTriedTokens && count(both) == 2 * kTriedTokens) return {};
  return fail(ErrorCode::kUnsupported, fmt::format("the tokenizer makes {} tokens of {} words: it joins some of them",
                                                   count(both), 2 * kTriedTokens));
}

std::string TokenProse::make(std::uint64_t seed, std::size_t tokens, Begins begins) const {
  RandomStream random(seed);
  std::string text;
  for (std::size_t i = 0; i < tokens; ++i) {
    const bool is_first = i == 0 && begins == Begins::kAText;
    const std::vector<std::string>& words = is_first ? first_words_ : words_;
    if (!is_first) text.push_back(' ');
    text += words[static_cast<std::size_t>(random.uniform_int(0, std::ssize(words) - 1))];
  }
  return text;
}

std::vector<TokenId> TokenProse::encode(std::string_view text) const {
  std::vector<TokenId> tokens;
  tokenizer_->encode(text, tokens);
  return tokens;
}

}  // namespace kvist::text

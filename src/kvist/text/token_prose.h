// Text with exactly so many tokens of a tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::text {

/// Makes texts of words that are one token each, the space before them included, so that a text of n words has n
/// tokens, alone and behind another text of these. What a chat template puts around a message comes on top. Immutable.
/// Threads: any.
class TokenProse {
 public:
  /// Finds the words, and tries them. Errors: the tokenizer has fewer than two such words, or joins them.
  [[nodiscard]] static Result<TokenProse> create(std::shared_ptr<const tokenizer::Tokenizer> tokenizer);

  enum class Begins : bool { kAText, kBehindOne };
  /// The same for the same seed.
  [[nodiscard]] std::string make(std::uint64_t seed, std::size_t tokens, Begins begins = Begins::kAText) const;
  /// The tokens of any text.
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text) const;
  [[nodiscard]] std::uint32_t count(std::string_view text) const {
    return static_cast<std::uint32_t>(encode(text).size());
  }
  [[nodiscard]] std::size_t words() const { return words_.size(); }

 private:
  explicit TokenProse(std::shared_ptr<const tokenizer::Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}
  void find_words();
  void consider(const std::string& word);
  [[nodiscard]] Result<void> try_words() const;

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::vector<std::string> first_words_;  // one token at the beginning of a text
  std::vector<std::string> words_;        // one token with the space before it
};

}  // namespace kvist::text

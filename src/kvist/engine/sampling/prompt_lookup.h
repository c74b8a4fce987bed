// Drafts without a model: what followed the previous occurrence of the last tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"

namespace kvist::engine {

/// Prompt look-up (n-gram) speculation: answers often repeat their prompt, or themselves. Finds the latest earlier
/// occurrence of the last tokens, kLongest of them or as few as kShortest, and proposes what followed it. One object
/// per request. Memory: an entry per token and length; a token costs a look-up and an insertion per length.
class PromptLookup {
 public:
  static constexpr std::uint32_t kLongest = 4;
  static constexpr std::uint32_t kShortest = 2;

  /// Resets and starts with a prompt. `proposes` false: the tokens are only kept, and nothing is ever proposed.
  void begin(std::span<const TokenId> prompt, bool proposes = true);
  void add(TokenId token);
  /// Replaces the content of `drafts` by up to `most` tokens that may come next; none if nothing is repeated.
  void propose(std::uint32_t most, std::vector<TokenId>& drafts) const;

  [[nodiscard]] std::span<const TokenId> tokens() const { return tokens_; }
  /// Of the n-grams, for tests: FlatMap's. Clients choose the tokens, and their n-grams must not be made to meet.
  [[nodiscard]] std::size_t longest_search() const { return latest_.longest_search(); }

 private:
  using Key = Id<struct NgramTag, std::uint64_t>;
  [[nodiscard]] Key key(std::size_t end, std::uint32_t length) const;
  [[nodiscard]] bool is_same(std::size_t a_end, std::size_t b_end, std::uint32_t length) const;

  bool proposes_ = true;
  std::vector<TokenId> tokens_;
  // n-gram -> the position after its latest occurrence that has a continuation
  FlatMap<Key, std::uint32_t, RandomSpread> latest_;
};

}  // namespace kvist::engine

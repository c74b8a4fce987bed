// How often each token occurs in a sequence, for penalties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"

namespace kvist::engine {

/// One per request, only if a penalty is used. Memory: proportional to the number of distinct tokens.
class TokenCounts {
 public:
  struct Entry {
    TokenId token;
    std::uint32_t in_answer = 0;
  };

  void add_prompt(std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) (void)entry(token);
  }
  void add_answer(TokenId token) { ++entry(token).in_answer; }
  void clear() {
    places_ = {};
    entries_.clear();
  }
  /// Each distinct token of prompt and answer, in the order of first appearance.
  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  /// For tests: FlatMap's. Clients choose the tokens, which must not be made to meet.
  [[nodiscard]] std::size_t longest_search() const { return places_.longest_search(); }

 private:
  Entry& entry(TokenId token) {
    const auto [place, is_new] = places_.try_emplace(token);
    if (is_new) {
      *place = static_cast<std::uint32_t>(entries_.size());
      entries_.push_back({.token = token});
    }
    return entries_[*place];
  }

  FlatMap<TokenId, std::uint32_t, RandomSpread> places_;
  std::vector<Entry> entries_;
};

}  // namespace kvist::engine

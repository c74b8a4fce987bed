// A cache of the tokens of recent words.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::tokenizer {

/// A direct-mapped cache of the tokens of short words. It takes a fixed amount of memory (1 MiB) and no bookkeeping,
/// and no input costs more than a miss. Threads: one.
class WordCache {
 public:
  [[nodiscard]] std::span<const TokenId> find(std::string_view word, std::size_t hash) const {
    const Slot& slot = slots_[hash % kSlots];
    if (slot.bytes != word.size() || std::memcmp(slot.word, word.data(), word.size()) != 0) return {};
    return {slot.tokens, slot.count};
  }

  void put(std::string_view word, std::size_t hash, std::span<const TokenId> tokens) {
    if (word.size() > kMostBytes || tokens.size() > kMostTokens) return;
    Slot& slot = slots_[hash % kSlots];
    slot.bytes = static_cast<std::uint8_t>(word.size());
    slot.count = static_cast<std::uint8_t>(tokens.size());
    std::memcpy(slot.word, word.data(), word.size());
    std::ranges::copy(tokens, slot.tokens);
  }

  [[nodiscard]] static std::size_t hash(std::string_view word) { return std::hash<std::string_view>{}(word); }
  /// Whether a word may be in the cache; longer ones are not worth it.
  [[nodiscard]] static bool takes(std::string_view word) { return word.size() <= kMostBytes; }
  void clear() { slots_.assign(kSlots, Slot{}); }

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 14U;
  static constexpr std::size_t kMostBytes = 30;
  static constexpr std::size_t kMostTokens = 8;
  // One cache line. A word has at least one byte, so an empty slot matches none.
  struct alignas(64) Slot {
    TokenId tokens[kMostTokens] = {};
    std::uint8_t bytes = 0;
    std::uint8_t count = 0;
    char word[kMostBytes] = {};
  };
  static_assert(sizeof(Slot) == 64);

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

}  // namespace kvist::tokenizer

// Which pairs of tokens merge, in which order, and to which token.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::tokenizer {

/// The merges of a BPE model by pair. It is one array, at most half full, so a look-up reads about one cache line.
class MergeTable {
 public:
  static constexpr std::uint32_t kNoMerge = 0xFFFF'FFFF;
  struct Merge {
    std::uint32_t rank = kNoMerge;  ///< smaller merges first
    std::uint32_t result = 0;       ///< the id of the merged token
  };

  /// Allocates space for `merges` merges.
  void reserve(std::size_t merges) {
    slots_.assign(std::bit_ceil(merges * 2 + 2), Slot{});
    shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots_.size()));
  }
  /// Adds a merge. Of two for the same pair the later one counts, as in Hugging Face's library. Requires: reserve() has
  /// allocated space for it.
  void put(TokenId left, TokenId right, Merge merge) {
    Slot& slot = slots_[slot_of(key_of(left.value(), right.value()))];
    slot = {key_of(left.value(), right.value()), merge};
  }
  [[nodiscard]] Merge find(std::uint32_t left, std::uint32_t right) const {
    return slots_[slot_of(key_of(left, right))].merge;
  }

 private:
  static constexpr std::uint64_t kEmpty = 0xFFFF'FFFF'FFFF'FFFF;
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };

  static std::uint64_t key_of(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32U | right; }
  // Fibonacci hashing (2^64 / golden ratio), with the left id folded into the right one's bits first.
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = ((key ^ (key >> 29U)) * 0x9E37'79B9'7F4A'7C15ULL) >> shift_;
    while (slots_[slot].key != key && slots_[slot].key != kEmpty) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<Slot> slots_ = std::vector<Slot>(2);
  unsigned shift_ = 63;
};

}  // namespace kvist::tokenizer

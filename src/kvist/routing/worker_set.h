// A set of workers as bits: what the KV index keeps per block.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::routing {

/// One bit per worker. The first 64 workers need no memory beside the object itself; larger fleets grow it.
class WorkerSet {
 public:
  void insert(WorkerId worker) { grown_word(worker) |= bit(worker); }

  void erase(WorkerId worker) {
    if (index(worker) <= more_.size()) word(index(worker)) &= ~bit(worker);
  }

  [[nodiscard]] bool contains(WorkerId worker) const { return (word_or_zero(index(worker)) & bit(worker)) != 0; }

  [[nodiscard]] bool empty() const {
    if (first_ != 0) return false;
    for (const std::uint64_t w : more_) {
      if (w != 0) return false;
    }
    return true;
  }

  /// Keeps only the workers that are in `other` too, and calls `left(worker)` for each that is not.
  template <class Left>
  void intersect(const WorkerSet& other, Left left) {
    for (std::size_t i = 0; i <= more_.size(); ++i) {
      const std::uint64_t kept = other.word_or_zero(i);
      for_each_bit(word(i) & ~kept, i, left);
      word(i) &= kept;
    }
  }

  /// Calls `visit(worker)` for each member, in ascending order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i <= more_.size(); ++i) for_each_bit(word_or_zero(i), i, visit);
  }

 private:
  static constexpr std::size_t kBits = 64;

  [[nodiscard]] static std::size_t index(WorkerId worker) { return worker.value() / kBits; }
  [[nodiscard]] static std::uint64_t bit(WorkerId worker) { return std::uint64_t{1} << (worker.value() % kBits); }

  [[nodiscard]] std::uint64_t& word(std::size_t i) { return i == 0 ? first_ : more_[i - 1]; }
  [[nodiscard]] std::uint64_t word_or_zero(std::size_t i) const {
    if (i == 0) return first_;
    return i <= more_.size() ? more_[i - 1] : 0;
  }
  [[nodiscard]] std::uint64_t& grown_word(WorkerId worker) {
    if (index(worker) > more_.size()) more_.resize(index(worker));
    return word(index(worker));
  }

  template <class Visit>
  static void for_each_bit(std::uint64_t bits, std::size_t word_index, Visit& visit) {
    while (bits != 0) {
      visit(WorkerId(static_cast<std::uint32_t>(word_index * kBits) +
                     static_cast<std::uint32_t>(std::countr_zero(bits))));
      bits &= bits - 1;
    }
  }

  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> more_;
};

}  // namespace kvist::routing

// A set of workers as bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::routing {

/// One bit per worker, 64 to a word. A set whose members all lie in one word takes 24 bytes: any set in a fleet of 64,
/// and that of a block that one worker holds. Other sets keep their words on the heap. Threads: a value, used by one
/// thread at a time.
class WorkerSet {
 public:
  WorkerSet() = default;
  WorkerSet(WorkerSet&&) noexcept = default;
  WorkerSet& operator=(WorkerSet&&) noexcept = default;
  WorkerSet(const WorkerSet& other) { *this = other; }
  WorkerSet& operator=(const WorkerSet& other) {
    if (this == &other) return *this;
    base_ = other.base_;
    bits_ = other.bits_;
    words_ = other.words_ ? std::make_unique<std::vector<std::uint64_t>>(*other.words_) : nullptr;
    return *this;
  }
  ~WorkerSet() = default;

  void insert(WorkerId worker) {
    const std::uint32_t i = index(worker);
    if (!words_) {
      if (bits_ == 0) base_ = i;
      if (base_ == i) {
        bits_ |= bit(worker);
        return;
      }
      words_ = std::make_unique<std::vector<std::uint64_t>>();
      grown(base_) = std::exchange(bits_, 0);
    }
    grown(i) |= bit(worker);
  }

  void erase(WorkerId worker) { keep(index(worker), ~bit(worker)); }

  [[nodiscard]] bool contains(WorkerId worker) const { return (word(index(worker)) & bit(worker)) != 0; }

  [[nodiscard]] bool empty() const {
    if (!words_) return bits_ == 0;
    for (const std::uint64_t w : *words_) {
      if (w != 0) return false;
    }
    return true;
  }

  // For a caller that has something else to do until the memory is there: where the words are noted, then the words.
  void prefetch() const { __builtin_prefetch(words_.get()); }
  void prefetch_words() const {
    constexpr std::size_t kPerLine = 8;
    if (!words_) return;
    for (std::size_t i = 0; i < words_->size(); i += kPerLine) __builtin_prefetch(words_->data() + i);
  }

  /// Removes the workers that are not in `other` and calls `left(worker)` for each of them.
  template <class Left>
  void intersect(const WorkerSet& other, Left left) {
    for_each_word([&](std::uint32_t i, std::uint64_t bits) {
      const std::uint64_t kept = other.word(i);
      for_each_bit(bits & ~kept, i, left);
      keep(i, kept);
    });
  }

  /// Calls `visit(worker)` for each member, in ascending order.
  template <class Visit>
  void for_each(Visit visit) const {
    for_each_word([&](std::uint32_t i, std::uint64_t bits) { for_each_bit(bits, i, visit); });
  }

 private:
  static constexpr std::uint32_t kBits = 64;

  [[nodiscard]] static std::uint32_t index(WorkerId worker) { return worker.value() / kBits; }
  [[nodiscard]] static std::uint64_t bit(WorkerId worker) { return std::uint64_t{1} << (worker.value() % kBits); }

  [[nodiscard]] std::uint64_t word(std::uint32_t i) const {
    if (!words_) return i == base_ ? bits_ : 0;
    return i < words_->size() ? (*words_)[i] : 0;
  }
  [[nodiscard]] std::uint64_t& grown(std::uint32_t i) {
    if (i >= words_->size()) words_->resize(i + 1U);
    return (*words_)[i];
  }
  void keep(std::uint32_t i, std::uint64_t mask) {
    if (!words_) {
      if (i == base_) bits_ &= mask;
    } else if (i < words_->size()) {
      (*words_)[i] &= mask;
    }
  }

  template <class Visit>
  void for_each_word(Visit visit) const {
    if (!words_) return visit(base_, bits_);
    for (std::uint32_t i = 0; i < words_->size(); ++i) visit(i, (*words_)[i]);
  }
  template <class Visit>
  static void for_each_bit(std::uint64_t bits, std::uint32_t word_index, Visit& visit) {
    while (bits != 0) {
      visit(WorkerId(word_index * kBits + static_cast<std::uint32_t>(std::countr_zero(bits))));
      bits &= bits - 1;
    }
  }

  std::uint64_t bits_ = 0;  // the word base_; unused if there are words_
  std::uint32_t base_ = 0;
  std::unique_ptr<std::vector<std::uint64_t>> words_;  // by index
};

}  // namespace kvist::routing

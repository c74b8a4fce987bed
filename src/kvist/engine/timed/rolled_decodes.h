// The decoding sequences of an engine that is rolled forward, as sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kvist/perfmodel/step_load.h"

namespace kvist::engine {

/// Each decoding sequence computes one token per step from its first to its last, and its context grows by one. So a
/// step's load follows from the number of sequences and one sum, however large the batch is, and only joining and
/// leaving take time. Steps are numbered from 1. Threads: one.
class RolledDecodes {
 public:
  struct Sequence {
    std::uint64_t last = 0;    ///< the last step that it takes part in, after which it leaves
    std::int64_t offset = 0;   ///< its context in step n is n + offset
    std::uint32_t holder = 0;  ///< of its memory
  };

  void clear() {
    taking_part_.clear();
    done_.clear();
    next_done_ = 0;
    offsets_ = 0;
  }
  /// Adds a sequence whose context is `context` tokens in step `first`. Requires: steps before `first` were filled.
  void add(std::uint64_t first, std::uint64_t last, std::uint64_t context, std::uint32_t holder) {
    const std::int64_t offset = static_cast<std::int64_t>(context) - static_cast<std::int64_t>(first);
    taking_part_.push_back({.last = last, .offset = offset, .holder = holder});
    std::ranges::push_heap(taking_part_, kLatestBelow);
    offsets_ += offset;
  }
  /// The load of the sequences that take part in `step`.
  [[nodiscard]] perfmodel::StepLoad load(std::uint64_t step) {
    retire_before(step);
    const std::uint64_t count = taking_part_.size();
    const auto context = static_cast<std::uint64_t>(offsets_ + static_cast<std::int64_t>(count * step));
    return {.sequences = count, .kv_tokens_read = context, .decode_sequences = count, .decode_kv_tokens = context};
  }
  /// Calls `leaves(sequence)` for each that leaves when `step` has ended.
  template <class Leaves>
  void end(std::uint64_t step, Leaves leaves) {
    retire_before(step + 1);
    for (; next_done_ < done_.size() && done_[next_done_].last <= step; ++next_done_) leaves(done_[next_done_]);
  }
  /// Those that take part in the step whose load was asked for last, or in later ones, in no order.
  [[nodiscard]] const std::vector<Sequence>& taking_part() const { return taking_part_; }

 private:
  static constexpr auto kLatestBelow = [](const Sequence& a, const Sequence& b) { return a.last > b.last; };

  void retire_before(std::uint64_t step) {
    while (!taking_part_.empty() && taking_part_.front().last < step) {
      std::ranges::pop_heap(taking_part_, kLatestBelow);
      offsets_ -= taking_part_.back().offset;
      done_.push_back(taking_part_.back());
      taking_part_.pop_back();
    }
  }

  std::vector<Sequence> taking_part_;  // a heap: the one that leaves first is in front
  std::vector<Sequence> done_;         // in the order of their last steps
  std::size_t next_done_ = 0;          // of those that have not left
  std::int64_t offsets_ = 0;
};

}  // namespace kvist::engine

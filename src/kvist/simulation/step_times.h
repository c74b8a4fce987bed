// The instants at which a worker's steps reached the client, kept for the answers that are in its run.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "kvist/base/time.h"

namespace kvist::simulation {

/// A log of instants that is only as long as somebody reads it: a reader holds the block where it began, each block the
/// one after it, and the log the last. Threads: one.
class StepTimes {
  static constexpr std::size_t kBlock = 256;
  struct Block {
    std::array<TimePoint, kBlock> times;
    std::size_t count = 0;
    std::shared_ptr<Block> next;
  };

 public:
  /// A place in the log: behind all instants that were added before.
  class Reader {
   public:
    Reader() = default;
    /// Calls visit(instant) for each instant that was added since, in order, and moves behind them.
    template <class Visit>
    void read(Visit visit) {
      while (block_) {
        for (; at_ < block_->count; ++at_) visit(block_->times[at_]);
        if (!block_->next) return;
        block_ = block_->next;
        at_ = 0;
      }
    }

   private:
    friend class StepTimes;
    Reader(std::shared_ptr<Block> block, std::size_t at) : block_(std::move(block)), at_(at) {}
    std::shared_ptr<Block> block_;
    std::size_t at_ = 0;
  };

  void add(TimePoint at) {
    if (!last_ || last_->count == kBlock) {
      auto block = std::make_shared<Block>();
      if (last_) last_->next = block;
      last_ = std::move(block);
    }
    last_->times[last_->count++] = at;
  }
  [[nodiscard]] Reader reader() {
    if (!last_) last_ = std::make_shared<Block>();
    return {last_, last_->count};
  }

 private:
  std::shared_ptr<Block> last_;
};

}  // namespace kvist::simulation

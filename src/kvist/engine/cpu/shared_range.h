// Work that threads divide dynamically.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "kvist/engine/cpu/thread_pool.h"

namespace kvist::engine::cpu {

/// [0, n), taken by the threads of a stage run by run: each takes its own part (part_of) from the front, one stream of
/// memory, and then steals from the parts of the others. Threads are never equally fast (memory, other processes, cores
/// of two kinds), and without stealing every join would wait for the slowest.
///
/// Threads: begin() by one thread before the fork; take() by each thread of the stage. Requires: results do not depend
/// on which thread computes them.
class SharedRange {
 public:
  explicit SharedRange(unsigned threads) : parts_(threads) {}

  /// A new range, of which take() gives `grain` at a time. Requires: grain >= 1.
  void begin(std::size_t n, std::size_t grain) {
    grain_ = grain;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Range part = part_of(n, i, parts_.size());
      parts_[i].next.store(part.begin, std::memory_order_relaxed);
      parts_[i].end = part.end;
    }
  }

  /// The next run for `thread`, empty when nothing is left.
  [[nodiscard]] Range take(unsigned thread) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[(thread + i) % parts_.size()];
      // Reads before it writes: otherwise the counters of finished parts would bounce between all threads' caches.
      if (part.next.load(std::memory_order_relaxed) >= part.end) continue;
      const std::size_t begin = part.next.fetch_add(grain_, std::memory_order_relaxed);
      if (begin < part.end) return {begin, std::min(begin + grain_, part.end)};
    }
    return {};
  }

 private:
  struct alignas(64) Part {
    std::atomic<std::size_t> next{0};
    std::size_t end = 0;
  };

  std::size_t grain_ = 1;
  std::vector<Part> parts_;
};

}  // namespace kvist::engine::cpu

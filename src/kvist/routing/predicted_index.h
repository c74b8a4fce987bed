// What the workers' caches should hold, judged by what was routed to them alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// The prompts that were given to each worker recently. A prompt enters when it is routed, so of two requests with one
/// prefix that come together the second already finds it. It leaves when its time to live is over, or as the least
/// recent one when the worker's bound of distinct blocks or of bytes is passed; engines evict the least recently used
/// blocks too. Blocks that answers fill are not known here.
///
/// Threads: one. Memory: per prompt its block hashes and at most two nodes of a radix tree, within `max_bytes` over all
/// workers. An insertion or removal costs a few steps per prompt, not one per block.
class PredictedIndex {
 public:
  struct Options {
    Duration ttl{};
    std::size_t max_bytes = 256U << 20;  ///< of block hashes, shared evenly by the workers
  };

  PredictedIndex(Options options, std::size_t workers);

  /// Records that the worker was given this prompt, and returns the prompt's number; numbers ascend. `max_blocks`: what
  /// its KV memory holds; 0 if unknown. Requires: `now` never decreases.
  std::uint64_t insert(WorkerId worker, const BlockKeys& prompt, std::uint32_t max_blocks, TimePoint now);
  /// Forgets what is older than the time to live.
  void expire(TimePoint now);
  void clear(WorkerId worker);
  /// Forgets the prompt of this number, if it is still there: the worker did not compute it.
  void take_back(WorkerId worker, std::uint64_t number);
  /// Forgets the prompts that came before the one of this number.
  void drop_before(WorkerId worker, std::uint64_t number);

  /// depths[w] becomes the number of leading blocks that worker w should hold.
  void match(std::span<const kv::BlockHash> prompt, std::span<std::uint32_t> depths) const {
    prompts_.match(prompt, depths);
  }
  /// match(), to be made side by side with others.
  [[nodiscard]] PrefixUse::LookUp look_up(std::span<std::uint32_t> depths) const {
    return {.prefixes = &prompts_, .depths = depths};
  }

  /// The number of distinct blocks of one worker.
  [[nodiscard]] std::uint64_t blocks(WorkerId worker) const { return workers_.at(worker.value()).blocks; }
  /// The number of prompts of one worker.
  [[nodiscard]] std::size_t prompts(WorkerId worker) const { return workers_.at(worker.value()).entries.size(); }

 private:
  struct Entry {
    std::uint64_t number = 0;
    BlockKeys prompt;
  };
  struct Worker {
    std::deque<Entry> entries;  // oldest first
    std::uint64_t blocks = 0;   // distinct
    std::size_t bytes = 0;
  };
  // All workers' entries by age. If an entry was dropped early, its number is no longer among its worker's entries.
  struct Due {
    TimePoint at;
    std::uint64_t number = 0;
    WorkerId worker;
  };
  void drop(WorkerId id, const std::deque<Entry>::iterator& entry);
  void drop_oldest(WorkerId id);

  Duration ttl_;
  std::size_t max_bytes_per_worker_;
  PrefixUse prompts_;
  std::vector<Worker> workers_;  // by WorkerId
  std::deque<Due> due_;
  std::uint64_t last_number_ = 0;
};

}  // namespace kvist::routing

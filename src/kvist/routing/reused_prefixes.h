// The prefixes that each worker's cache is worth keeping for.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// Which prefixes were used more than once lately, and on which workers. A prompt that goes to a worker whose cache
/// they fill displaces some of them, and they have to be computed again. Prompts that no later request reused do not
/// count, because an LRU cache gives them up first. Threads: the router's. Memory: kMostBlocks hashes, and two nodes of
/// a radix tree per use.
class ReusedPrefixes {
 public:
  /// A prefix that was not used for so long may be evicted without a loss. In simulations of agents who pause for up to
  /// 8 s between turns, 20 to 60 s give about the same.
  static constexpr Duration kKept = std::chrono::seconds(30);
  /// What all uses hold at most. Beyond it the oldest are given up early.
  static constexpr std::size_t kMostUses = 100'000;
  static constexpr std::size_t kMostBlocks = std::size_t{8} << 20;

  explicit ReusedPrefixes(std::size_t workers) : blocks_(workers) {}

  /// A prompt goes to a worker; its first `reused` blocks, if it has as many, were known from earlier prompts. Returns
  /// the number of this use; 0: there is none.
  std::uint64_t add(WorkerId worker, const BlockKeys& prompt, std::size_t reused, TimePoint now);
  /// Forgets the use of this number, if it is still there: the worker did not compute the prompt.
  void take_back(std::uint64_t number);
  /// Forgets uses that are older than kKept. Requires: `now` never decreases.
  void expire(TimePoint now);
  /// The worker's cache is empty.
  void clear(WorkerId worker);

  /// depths[w] becomes the number of leading blocks of a prompt that are part of reused prefixes of worker w.
  void match(std::span<const kv::BlockHash> prompt, std::span<std::uint32_t> depths) const {
    prefixes_.match(prompt, depths);
  }
  /// match(), to be made side by side with others.
  [[nodiscard]] PrefixUse::LookUp look_up(std::span<std::uint32_t> depths) const {
    return {.prefixes = &prefixes_, .depths = depths};
  }
  /// The number of distinct blocks of the worker's reused prefixes.
  [[nodiscard]] std::uint64_t blocks(WorkerId worker) const { return blocks_[worker.value()]; }

 private:
  struct Use {
    std::uint64_t number = 0;
    TimePoint at;
    WorkerId worker;
    BlockKeys prompt;  // null: taken back
    std::size_t blocks = 0;
  };
  void forget(const Use& use);
  void forget_oldest();

  PrefixUse prefixes_;
  std::deque<Use> uses_;  // by time and number
  std::uint64_t last_number_ = 0;
  std::vector<std::uint64_t> blocks_;  // distinct ones by WorkerId
  std::size_t held_ = 0;               // hashes of the prompts of all uses, shared ones as often as they are used
};

}  // namespace kvist::routing

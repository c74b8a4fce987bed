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
/// they fill displaces some of them, and they have to be computed again. Prompts that nothing came back to do not
/// count, because an LRU cache gives them up first. Threads: the router's. Memory: as PrefixUse, for the prompts of
/// kKept, at most kMost of them.
class ReusedPrefixes {
 public:
  /// A prefix that was not used for so long may be evicted without a loss. In simulations of agents who pause for up to
  /// 8 s between turns, 20 to 60 s give about the same.
  static constexpr Duration kKept = std::chrono::seconds(30);
  static constexpr std::size_t kMost = 100'000;

  explicit ReusedPrefixes(std::size_t workers) : blocks_(workers), depths_(workers) {}

  /// A prompt goes to a worker; its first `reused` blocks, if it has as many, were known from earlier prompts.
  void add(WorkerId worker, const BlockKeys& prompt, std::size_t reused, TimePoint now);
  /// Looks a prompt up for would_displace().
  void look_up(std::span<const kv::BlockHash> prompt, TimePoint now);
  /// How many blocks of reused prefixes, at most as many as the prompt that was looked up has, no longer fit beside it
  /// into `kv_blocks`.
  [[nodiscard]] std::uint64_t would_displace(WorkerId worker, std::uint32_t kv_blocks) const;

 private:
  struct Use {
    TimePoint at;
    WorkerId worker;
    BlockKeys prompt;
    std::size_t blocks = 0;
  };
  void forget_oldest();

  PrefixUse prefixes_;
  std::deque<Use> uses_;               // by time
  std::vector<std::uint64_t> blocks_;  // distinct ones by WorkerId
  std::vector<std::uint32_t> depths_;  // of the prompt that was looked up, by WorkerId
  std::uint64_t prompt_blocks_ = 0;    // of that prompt
};

}  // namespace kvist::routing

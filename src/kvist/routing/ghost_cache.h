// What the fleet's caches would still have if they were larger, and what the next block that one of them takes costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kvist/base/flat_map.h"
#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"

namespace kvist::routing {

/// Learns how many blocks have to be computed again for each block that is put into a cache, because it evicts another
/// one. With H blocks found in caches and I put into them in a while, and C blocks of KV memory, a block stays for C /
/// I of these whiles, and in each of them its place would have served dH/dC: together C / I x dH/dC. The slope is
/// measured by the blocks that no cache has any more, but would have with kMore more memory. (Such "ghost" entries:
/// Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", 2003; the slope of the miss ratio curve
/// from a sample of blocks: Waldspurger et al., "Efficient MRC Construction with SHARDS", 2015.) It is 0 where all that
/// comes back has room, and where what is evicted never comes back.
///
/// A block's age is how many blocks were put into any cache since it was used. At which age blocks are evicted is
/// learned from what is found and what is not: less than C, because what is used again keeps its place. With a few
/// blocks more memory it is as many higher, because only what is put in ages others (Che et al., "Hierarchical Web
/// Caching Systems", 2002). Blocks are sampled by their hash, of which a key decides which ones are: clients can choose
/// hashes, and would count as many times as others otherwise. What was routed and then not computed is in no cache, and
/// says nothing. Threads: the router's. Memory: up to 100 bytes for each sampled block.
class GhostCache {
 public:
  /// By so much larger, as a share of the fleet's KV memory.
  static constexpr double kMore = 0.25;
  /// Sampled blocks that a fleet of caches larger by kMore would have; never more than twice as many are kept.
  static constexpr std::size_t kMostSampled = 8'192;
  /// Of one prompt in what is learned.
  static constexpr double kShare = 1.0 / 256;

  /// `sample_key`: which blocks are sampled.
  explicit GhostCache(std::size_t workers, std::uint64_t sample_key = 0) : sample_key_(sample_key), emptied_(workers) {}

  /// A prompt's place among the caches.
  struct Found {
    std::size_t anywhere = 0;  ///< leading blocks that some cache has
    std::size_t there = 0;     ///< and that of the worker that it goes to
    bool exact = true;         ///< these are known from KV events
  };
  /// A prompt goes to a worker of a fleet with so many blocks of KV memory (0: unknown; then nothing is learned).
  void on_routed(WorkerId worker, std::span<const kv::BlockHash> prompt, const Found& found,
                 std::uint64_t fleet_blocks);
  /// Another gateway sent a prompt to a worker, which puts `inserted` blocks into its cache.
  void on_peer_routed(WorkerId worker, std::span<const kv::BlockHash> prompt, std::uint64_t inserted);
  /// A request of on_routed() or on_peer_routed() left its worker before its prompt was computed.
  void take_back(WorkerId worker, std::span<const kv::BlockHash> prompt);
  /// An answer put so many blocks into a cache. `is_own`: of a request of on_routed().
  void on_answer(std::uint64_t blocks, bool is_own);
  /// The worker's cache is empty, or what it has is not known any more: what it had was not evicted.
  void clear(WorkerId worker) { emptied_[worker.value()] = inserted_in_all_; }

  /// Blocks that have to be computed again per block that is put into a cache, from 0 to 1 / kMore.
  [[nodiscard]] double recomputed() const;
  /// Sampled blocks that are kept.
  [[nodiscard]] std::size_t size() const { return last_uses_.size(); }

 private:
  struct Use {
    std::uint64_t at = 0;  // inserted_in_all_ at that time
    WorkerId worker;
    bool is_computed = true;  // as far as is known
  };
  /// The age up to which caches larger by kMore would have a block.
  [[nodiscard]] std::uint64_t horizon() const;
  void resize(std::uint64_t fleet_blocks);
  void learn_age(std::uint64_t age, bool is_found);
  void touch(WorkerId worker, std::span<const kv::BlockHash> prompt, std::optional<std::size_t> anywhere);
  void insert(std::uint64_t blocks) { inserted_in_all_ += blocks; }
  [[nodiscard]] bool is_sampled(kv::BlockHash block) const {
    return ((block.value() ^ sample_key_) & (stride_ - 1)) == 0;
  }
  void expire();

  FlatMap<kv::BlockHash, Use, RandomSpread> last_uses_;          // of sampled blocks
  std::deque<std::pair<std::uint64_t, kv::BlockHash>> by_last_use_;  // one per block, by a use that may not be the last
  std::uint64_t inserted_in_all_ = 0;
  std::uint64_t fleet_blocks_ = 0;
  std::uint64_t evicted_age_ = 0;  // blocks that are older are mostly not found, younger ones mostly are
  std::uint64_t sample_key_;
  std::uint64_t stride_ = 1;  // a power of two: one of so many blocks is sampled
  double missed_ = 0;         // sums over prompts, of which older ones count less: blocks that larger caches would have
  double inserted_ = 0;       // and those that were put into caches
  std::vector<std::uint64_t> emptied_;  // by WorkerId: inserted_in_all_ when its cache was empty for the last time
};

}  // namespace kvist::routing

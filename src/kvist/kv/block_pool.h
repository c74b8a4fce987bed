// The worker's KV memory as blocks: which are in use, which are findable by prefix, which is evicted next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/zeroed_array.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"

namespace kvist::kv {

/// A physical block of KV memory: its position in the pool.
using BlockId = Id<struct BlockTag, std::uint32_t>;

/// Cumulative counts, for metrics.
struct BlockPoolCounters {
  std::uint64_t allocations = 0;
  std::uint64_t evictions = 0;      ///< findable blocks that were re-used for something else
  std::uint64_t stored_blocks = 0;  ///< blocks that became findable
  std::uint64_t reuses = 0;         ///< findable blocks without references that were acquired
};

/// Reference-counted blocks. Threads: one, the engine core's. Invariants:
///  - a block with references is not in the free list; one without any is in it exactly once, if it ever had one;
///  - a findable (committed) block keeps its block hash, which events give as its name, when its last reference goes,
///    and stays findable until it is allocated again;
///  - the free list is in LRU order: first the blocks that are not findable, of which the last released comes first
///    because its memory is warm, then the findable ones by the time of their last release. Between the two come those
///    that were never used, by number;
///  - one block hash may have several physical copies, where two requests computed the same prefix at once;
///  - events come in the order in which the pool changed: replaying them all rebuilds exactly the findable blocks.
class BlockPool {
 public:
  BlockPool(std::uint32_t blocks, std::uint32_t block_size);

  [[nodiscard]] std::uint32_t block_size() const { return block_size_; }
  [[nodiscard]] std::uint32_t total_blocks() const { return total_; }
  /// Blocks without references, findable or not, which allocate() can return.
  [[nodiscard]] std::uint32_t free_blocks() const { return free_count_; }
  [[nodiscard]] std::uint32_t used_blocks() const { return total_blocks() - free_count_; }
  [[nodiscard]] const BlockPoolCounters& counters() const { return counters_; }

  /// A findable copy of the block with this hash, one in use if possible; nothing if there is none.
  [[nodiscard]] std::optional<BlockId> find(BlockHash hash) const;
  /// Replaces the content of `blocks` with findable copies of the longest prefix of a chain: one per block
  /// hash, up to the first that has none. The same as find() for each, but faster.
  void find_prefix(std::span<const BlockHash> hashes, std::vector<BlockId>& blocks) const;
  /// Another findable copy with the same hash; after the last one the first again, so alone it is its own. Requires:
  /// the block is findable.
  [[nodiscard]] BlockId next_copy(BlockId block) const;
  [[nodiscard]] std::uint32_t references(BlockId block) const;

  /// Returns the first free block with one reference for the caller; nothing if all are in use. If the block was
  /// findable, it no longer is, and an event says so.
  [[nodiscard]] std::optional<BlockId> allocate();
  /// Adds a reference to a block, which leaves the free list if it was there. Requires: the block is findable or in
  /// use.
  void acquire(BlockId block);
  /// Drops a reference of the caller's. Callers release a request's blocks from the last to the first, so that the ends
  /// of prefixes are re-used before their shared beginnings. Requires: the block is in use.
  void release(BlockId block);
  /// Makes blocks findable whose content is complete: `hashes[i]` is the block hash of blocks[i]; `parent` is the
  /// one before the first (nothing at the start of a prompt); `tokens` are those of all the blocks, or nothing if
  /// subscribers believe the names (BlockStored::names_are_keys); `identity` is what the prompt's root was made of.
  /// Adds one event. It tells subscribers the LoRA name and, with a prompt's first block, the cache salt, so that they
  /// can compute the same hashes. Requires: each block is in use, and none is findable yet.
  void commit(std::span<const BlockId> blocks, std::span<const BlockHash> hashes, std::optional<BlockHash> parent,
              std::span<const TokenId> tokens, const PrefixIdentity& identity = {});
  /// Makes every block unfindable, even those in use, which stay allocated. Adds one AllBlocksCleared event.
  void clear_hashes();

  /// Returns the events since the last call, oldest first; consecutive removals are one event. The owner takes them at
  /// every step. In steady state the pool allocates memory only for events.
  [[nodiscard]] std::vector<KvEvent> take_events();
  /// Like take_events(), but replaces the content of `out`, whose memory is kept for later events.
  void take_events(std::vector<KvEvent>& out);
  /// The hashes of all findable blocks with their numbers of physical copies, for tests and for comparing with a
  /// subscriber's view.
  [[nodiscard]] std::unordered_map<BlockHash, std::uint32_t> findable() const;
  /// The greatest number of entries that a look-up of a findable block reads, for tests.
  [[nodiscard]] std::size_t longest_search() const;

 private:
  // Within the pool a block is known by its id + 1, so that all is zero at first: new memory that no block was ever
  // kept in is not touched, which makes thousands of large simulated pools smaller.
  static constexpr std::uint32_t kNone = 0;

  // 32 bytes: two in a cache line. All zero: a block that was never used.
  struct Block {
    BlockHash hash;
    std::uint32_t references;
    // Links of the free list; kNone at its ends.
    std::uint32_t free_previous;
    std::uint32_t free_next;
    // Links of the ring of all copies with one block hash. Its entry in entries_ leads to the first copy; copies in
    // use come before free ones.
    std::uint32_t copy_previous;
    std::uint32_t copy_next;
    bool findable;
  };

  [[nodiscard]] static std::uint32_t index_of(BlockId block) { return block.value() + 1; }
  [[nodiscard]] static BlockId id_of(std::uint32_t index) { return BlockId(index - 1); }
  [[nodiscard]] std::uint32_t take_free();
  [[nodiscard]] Block& checked(BlockId block);
  void push_free_front(std::uint32_t index);
  void push_free_back(std::uint32_t index);
  void unlink_free(std::uint32_t index);
  void link_copy(std::uint32_t index, bool in_front);
  void unlink_copy(std::uint32_t index);
  void move_copy(std::uint32_t index, bool to_front);
  [[nodiscard]] std::size_t home(BlockHash hash) const;
  [[nodiscard]] std::size_t entry_of(BlockHash hash) const { return entry_from(home(hash), hash); }
  /// The entry of the block hash, or the empty one that would take it, from where it would be if nobody else was there.
  [[nodiscard]] std::size_t entry_from(std::size_t entry, BlockHash hash) const {
    const std::size_t mask = entries_.size() - 1;
    while (entries_[entry] != kNone && blocks_[entries_[entry]].hash != hash) entry = (entry + 1) & mask;
    return entry;
  }
  void erase_entry(std::size_t entry);
  void forget_hash(std::uint32_t index);

  std::uint32_t block_size_;
  std::uint32_t total_;
  std::uint32_t free_count_;
  std::uint32_t free_first_ = kNone;
  std::uint32_t free_last_ = kNone;
  std::uint32_t first_unused_ = 1;  // it and all behind it were never used
  ZeroedArray<Block> blocks_;       // by index; the first is nobody's
  // A hash table with open addressing: for each block hash the index of its first copy, which has it; kNone in an empty
  // entry. It is at most half full, because there are at most as many hashes as blocks.
  ZeroedArray<std::uint32_t> entries_;
  unsigned entry_shift_;
  std::vector<KvEvent> events_;
  BlockPoolCounters counters_;
};

}  // namespace kvist::kv

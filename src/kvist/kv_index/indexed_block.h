// One block of the KV index: its key, who holds it, and how valuable it is; chunks of them, and blocks by themselves.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kvist/kv_index/worker_set_pool.h"

namespace kvist::kv_index {

/// When a block was last used and how deep it lies in its prefix, in 31 bits. Time is counted in ticks: one tick passes
/// whenever a 64th of the index's blocks has been stored anew (HolderTable).
///
/// Along a prefix no block is fresher than the block before it: a look-up refreshes a block together with all blocks
/// before it, and a new block is at most as fresh as its parent. Of two blocks of one age the deeper is evicted first.
/// Therefore a prefix loses its end and never its beginning.
class BlockUse {
 public:
  static constexpr std::uint32_t kMaxDepth = (1U << 14) - 1;  ///< deeper blocks count as this deep

  BlockUse() = default;
  BlockUse(std::uint16_t tick, std::uint32_t depth) : bits_(tick | std::min(depth, kMaxDepth) << 16) {}
  explicit BlockUse(std::uint32_t bits) : bits_(bits) {}

  [[nodiscard]] std::uint32_t bits() const { return bits_; }
  [[nodiscard]] std::uint16_t tick() const { return static_cast<std::uint16_t>(bits_); }
  [[nodiscard]] std::uint32_t depth() const { return bits_ >> 16; }
  /// Ticks since the last use. They are counted in 16 bits: a block that was not used while the index was filled anew a
  /// thousand times may look fresh again.
  [[nodiscard]] std::uint16_t age(std::uint16_t now) const { return static_cast<std::uint16_t>(now - tick()); }
  [[nodiscard]] BlockUse at(std::uint16_t tick) const { return BlockUse((bits_ & 0xffff'0000U) | tick); }
  /// The use of the block behind this one, equally fresh.
  [[nodiscard]] BlockUse deeper() const { return BlockUse(bits_ + (bits_ < kMaxDepth << 16 ? 1U << 16 : 0)); }

  /// The eviction priority: the greater, the sooner the block goes. It compares age, then depth, then bits of the key,
  /// which spread blocks of one age and depth; two such blocks are never in one prefix.
  [[nodiscard]] std::uint64_t uselessness(std::uint16_t now, std::uint64_t key) const {
    const std::uint64_t accident = depth() == kMaxDepth ? 0 : (key >> 32) & 0xffff;
    return std::uint64_t{age(now)} << 48 | std::uint64_t{depth()} << 16 | accident;
  }

 private:
  std::uint32_t bits_ = 0;
};

/// The place of a block, as BlockChains numbers places. 0 means none.
using BlockRef = std::uint32_t;

/// A block in 16 bytes; all zero in fresh memory. The key 0 means that there is no block. An empty set means that
/// nobody holds the block and that it stays only for the blocks behind it. Threads: one writes; readers in an epoch may
/// call key(), set() and refresh_shared().
class IndexedBlock {
 public:
  [[nodiscard]] std::uint64_t key() const { return key_.load(std::memory_order_acquire); }
  /// A handle of WorkerSetPool.
  [[nodiscard]] WorkerSetHandle set() const { return set_.load(std::memory_order_acquire); }
  [[nodiscard]] BlockUse use() const { return BlockUse(use_.load(std::memory_order_relaxed)); }

  /// Marks the block as used now. Threads: any. Tries once: if another thread changes the use meanwhile, its value is
  /// as good.
  void refresh_shared(std::uint16_t tick) {
    std::uint32_t seen = use_.load(std::memory_order_relaxed);
    if ((seen & kEmptied) != 0 || BlockUse(seen).tick() == tick) return;
    use_.compare_exchange_strong(seen, BlockUse(seen).at(tick).bits(), std::memory_order_relaxed);
  }
  /// As refresh_shared(). Threads: the writer's. Its tick is the newest, so nothing is lost if it overwrites a reader's
  /// refresh.
  void refresh(std::uint16_t tick) {
    if (use().tick() != tick) set_use(use().at(tick));
  }

  void put(std::uint64_t key, WorkerSetHandle set, BlockUse use) {
    set_use(use);
    set_set(set);
    key_.store(key, std::memory_order_release);
  }
  void set_set(WorkerSetHandle set) { set_.store(set, std::memory_order_release); }
  void set_use(BlockUse use) { use_.store(use.bits(), std::memory_order_relaxed); }
  /// Removes the block from its place. Readers that read its key before still see its set, until another block is put
  /// there.
  void erase(std::uint64_t epoch) {
    use_.store(kEmptied | static_cast<std::uint32_t>(epoch & (kEmptied - 1)), std::memory_order_relaxed);
    key_.store(0, std::memory_order_release);
  }
  /// The epoch in which the block at this place was erased, as far as 31 bits tell; 0 if there never was one. Requires:
  /// there is no block here.
  [[nodiscard]] std::uint64_t erased_in(std::uint64_t now) const {
    const std::uint32_t bits = use_.load(std::memory_order_relaxed);
    return (bits & kEmptied) == 0 ? 0 : now - ((now - bits) & (kEmptied - 1));
  }

 private:
  static constexpr std::uint32_t kEmptied = 1U << 31;
  std::atomic<std::uint64_t> key_;
  std::atomic<WorkerSetHandle> set_;
  std::atomic<std::uint32_t> use_;  // a BlockUse, or kEmptied and an epoch
};

/// Seven places for consecutive blocks of one prefix, with what the writer knows about them.
struct BlockChunk {
  static constexpr std::uint32_t kBlocks = 7;

  std::array<IndexedBlock, kBlocks> blocks;
  BlockRef parent;                             // of the first block; 0 at the start of a prompt
  std::array<std::uint8_t, kBlocks> branches;  // by block: how many branches follow it, up to kMostBranches
  std::uint8_t filled;                         // how many places, from the first on, have a block

  static constexpr std::uint8_t kMostBranches = 255;  // this many or more
};
static_assert(sizeof(BlockChunk) == 128);

/// What is known of a new block, by which its place is chosen.
struct PlacementHint {
  std::size_t coming = 1;  ///< how many consecutive blocks the event stores from this one on
  bool grows = false;      ///< its parent is from an earlier event: the prefix grows as an answer is decoded
};

/// A block that is stored by itself: the blocks behind it lie elsewhere.
struct LoneBlock {
  IndexedBlock block;
  BlockRef parent;
  std::uint8_t branches;  // as in a chunk
};
static_assert(sizeof(LoneBlock) == 24);

}  // namespace kvist::kv_index

// One block of the KV index: its key, who holds it, and how valuable it is; chunks of them, and blocks by themselves.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kvist/kv_index/worker_set_pool.h"

namespace kvist::kv_index {

/// When a block was last of use and how deep it lies in its prefix, in 31 bits. Time is counted in ticks of the index:
/// one passes for each 64th part of its blocks that is stored anew.
///
/// Ages never fall along a prefix: a look-up refreshes a block together with all blocks before it, and a new block is
/// at most as fresh as its parent. Among blocks of one age the deeper is worth less. So whatever is evicted, a prefix
/// loses its end and not its head.
class BlockUse {
 public:
  static constexpr std::uint32_t kMaxDepth = (1U << 14) - 1;  ///< deeper blocks count as this deep

  BlockUse() = default;
  BlockUse(std::uint16_t tick, std::uint32_t depth) : bits_(tick | std::min(depth, kMaxDepth) << 16) {}
  explicit BlockUse(std::uint32_t bits) : bits_(bits) {}

  [[nodiscard]] std::uint32_t bits() const { return bits_; }
  [[nodiscard]] std::uint16_t tick() const { return static_cast<std::uint16_t>(bits_); }
  [[nodiscard]] std::uint32_t depth() const { return bits_ >> 16; }
  /// Ticks since it was of use. They are counted in 16 bits: what was of no use for a thousand times as long as it
  /// takes to fill the index anew may look fresh again.
  [[nodiscard]] std::uint16_t age(std::uint16_t now) const { return static_cast<std::uint16_t>(now - tick()); }
  [[nodiscard]] BlockUse at(std::uint16_t tick) const { return BlockUse((bits_ & 0xffff'0000U) | tick); }
  /// As fresh, of the block behind.
  [[nodiscard]] BlockUse deeper() const { return BlockUse(bits_ + (bits_ < kMaxDepth << 16 ? 1U << 16 : 0)); }

  /// The greater, the sooner it goes: by age, then by depth, then by the accident of its key, which tells blocks apart
  /// that are as old and as deep as each other and so never in one prefix.
  [[nodiscard]] std::uint64_t uselessness(std::uint16_t now, std::uint64_t key) const {
    const std::uint64_t accident = depth() == kMaxDepth ? 0 : (key >> 32) & 0xffff;
    return std::uint64_t{age(now)} << 48 | std::uint64_t{depth()} << 16 | accident;
  }

 private:
  std::uint32_t bits_ = 0;
};

/// Where a block is, as BlockChains numbers them. 0: nowhere.
using BlockRef = std::uint32_t;

/// 16 bytes; zero while fresh. A block whose key is 0 is none; one whose set is empty is held by nobody and only there
/// for what follows it. Threads: one writes; readers in an epoch may call key(), set() and refresh_shared().
class IndexedBlock {
 public:
  [[nodiscard]] std::uint64_t key() const { return key_.load(std::memory_order_acquire); }
  /// A handle of WorkerSetPool.
  [[nodiscard]] WorkerSetHandle set() const { return set_.load(std::memory_order_acquire); }
  [[nodiscard]] BlockUse use() const { return BlockUse(use_.load(std::memory_order_relaxed)); }

  /// A reader's: it was of use now. One try: whoever else changes it meanwhile is as right.
  void refresh_shared(std::uint16_t tick) {
    std::uint32_t seen = use_.load(std::memory_order_relaxed);
    if ((seen & kEmptied) != 0 || BlockUse(seen).tick() == tick) return;
    use_.compare_exchange_strong(seen, BlockUse(seen).at(tick).bits(), std::memory_order_relaxed);
  }
  /// The same by the writer itself while no reader is at work.
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
  /// It is none any more. Readers that found its key before see the set that it had, until another block is put.
  void erase(std::uint64_t epoch) {
    use_.store(kEmptied | static_cast<std::uint32_t>(epoch & (kEmptied - 1)), std::memory_order_relaxed);
    key_.store(0, std::memory_order_release);
  }
  /// Of a block that is none: the epoch when it was erased, as far as 31 bits tell; 0 for a fresh one.
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

/// Blocks that follow each other, with what the writer knows about them.
struct BlockChunk {
  static constexpr std::uint32_t kBlocks = 7;

  std::array<IndexedBlock, kBlocks> blocks;
  BlockRef parent;                             // of the first block; 0 at the start of a prompt
  std::array<std::uint8_t, kBlocks> branches;  // chunks that go on behind each block, up to kMostBranches
  std::uint8_t filled;                         // the last block is not none, those from there on are

  static constexpr std::uint8_t kMostBranches = 255;  // or more
};
static_assert(sizeof(BlockChunk) == 128);

/// What is known of a block that is put, to choose its place.
struct BlockOutlook {
  std::size_t coming = 1;  ///< blocks that follow each other, with itself
  bool grows = false;      ///< what it is put behind was there before the event that stores it: a decoded block
};

/// A block by itself, which nothing follows in place.
struct LoneBlock {
  IndexedBlock block;
  BlockRef parent;
  std::uint8_t branches;  // as a chunk's
};
static_assert(sizeof(LoneBlock) == 24);

}  // namespace kvist::kv_index

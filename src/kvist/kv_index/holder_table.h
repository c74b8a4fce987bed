// Which workers hold which block: what stores and removals do to the keys.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/kv_index/block_chains.h"
#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/name_table.h"
#include "kvist/kv_index/worker_set_pool.h"

namespace kvist::kv_index {

/// A worker's side of a change: its number, and for each block that it holds under several names the names beyond the
/// first. Several names for one content come from a salt that the worker's events do not mention.
struct HoldingWorker {
  std::uint32_t id = 0;
  NameTable* further_names = nullptr;
};

/// Blocks with their holders, the sets of holders, and the clock by which blocks age. Threads: the writer's; readers
/// may use blocks(), sets() and tick() in an epoch.
class HolderTable {
 public:
  HolderTable(IndexMemory& memory, Epochs& epochs) : blocks_(memory, epochs), sets_(memory, epochs) {}

  /// The prefix behind which add() puts blocks: its last block, and the use that the next block has if it is as fresh.
  struct Prefix {
    BlockRef last = 0;
    BlockUse next;
  };
  /// The empty prefix, at the start of a prompt.
  [[nodiscard]] Prefix root() const { return {.last = 0, .next = BlockUse(tick(), 0)}; }
  /// The prefix that ends with a block. Requires: a worker holds the block.
  [[nodiscard]] Prefix behind(BlockRef parent) const {
    return {.last = parent, .next = blocks_.block(parent).use().deeper()};
  }
  /// Records that the worker holds the block with that key behind the prefix under one more name. The block then ends
  /// the prefix. Returns false where BlockChains::put() does.
  [[nodiscard]] bool add(const HoldingWorker& worker, Prefix& prefix, std::uint64_t key, PlacementHint placement);
  /// Records that the worker holds a block under one more name. Requires: some worker holds the block.
  void add_known(const HoldingWorker& worker, BlockRef block) {
    Prefix whole{.last = block, .next = blocks_.block(block).use()};
    add_to(worker, whole, block);
  }
  /// Advances the clock by the blocks added since the last call.
  void keep_time() {
    if (adds_left_in_tick_ <= 0) [[unlikely]]
      pass_tick();
  }
  /// Records that the worker holds the block under one name less.
  void drop(const HoldingWorker& worker, BlockRef block);
  /// As drop(), for many blocks in order.
  void drop_all(const HoldingWorker& worker, std::span<const BlockRef> blocks);

  /// Called while memory is short: see SegmentedSlots::tighten_next().
  void tighten_next() { blocks_.tighten_next(); }

  [[nodiscard]] const BlockChains& blocks() const { return blocks_; }
  [[nodiscard]] const WorkerSetPool& sets() const { return sets_; }
  [[nodiscard]] std::uint16_t tick() const { return tick_.load(std::memory_order_relaxed); }
  void reclaim() {
    sets_.reclaim();
    blocks_.reclaim();
  }

  /// How much one change may allocate at most, if all workers' numbers are below `workers`.
  [[nodiscard]] std::size_t growth_bytes(std::size_t workers) const {
    return blocks_.growth_bytes() + sets_.growth_bytes(workers);
  }

 private:
  // A tick passes when a 64th of the index was stored anew.
  static constexpr std::size_t kTicksPerTurnover = 64;
  static constexpr std::ptrdiff_t kLeastPerTick = 256;
  // Blocks that nobody has looked up yet count as this old: they have half a turnover to be looked up.
  static constexpr std::uint16_t kUnprovenTicks = kTicksPerTurnover / 2;

  [[nodiscard]] BlockUse use_of_new(const Prefix& prefix) const;
  [[nodiscard]] bool add_elsewhere(const HoldingWorker& worker, Prefix& prefix, std::uint64_t key,
                                   PlacementHint placement);
  void add_to(const HoldingWorker& worker, Prefix& prefix, BlockRef found);
  void drop_from_set(const HoldingWorker& worker, BlockRef block);
  [[nodiscard]] static bool drop_further_name(const HoldingWorker& worker, BlockRef block);
  void pass_tick();

  BlockChains blocks_;
  WorkerSetPool sets_;
  std::atomic<std::uint16_t> tick_ = 0;
  std::ptrdiff_t adds_left_in_tick_ = kLeastPerTick;
};

// A new block is at most as fresh as its parent, and at least kUnprovenTicks old.
inline BlockUse HolderTable::use_of_new(const Prefix& prefix) const {
  const std::uint16_t now = tick();
  if (prefix.next.age(now) >= kUnprovenTicks) [[likely]]
    return prefix.next;
  return prefix.next.at(static_cast<std::uint16_t>(now - kUnprovenTicks));
}

[[gnu::always_inline]] inline bool HolderTable::add(const HoldingWorker& worker, Prefix& prefix, std::uint64_t key,
                                                    PlacementHint placement) {
  const BlockUse use = use_of_new(prefix);
  const BlockRef appended = blocks_.append(prefix.last, key, WorkerSetPool::single(worker.id), use);
  if (appended != 0) [[likely]] {
    prefix = {.last = appended, .next = use.deeper()};
  } else {
    Prefix longer = prefix;  // so that the one that is passed along can stay in registers
    if (!add_elsewhere(worker, longer, key, placement)) [[unlikely]]
      return false;
    prefix = longer;
  }
  --adds_left_in_tick_;
  return true;
}

[[gnu::always_inline]] inline void HolderTable::drop(const HoldingWorker& worker, BlockRef block) {
  if (!worker.further_names->empty() && drop_further_name(worker, block)) [[unlikely]]
    return;
  if (blocks_.block(block).set() == WorkerSetPool::single(worker.id)) [[likely]]
    return blocks_.let_go(block);
  drop_from_set(worker, block);
}

}  // namespace kvist::kv_index

// The blocks of all prefixes, and where they lie: the part of the KV index that readers search.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/indexed_block.h"
#include "kvist/kv_index/name_table.h"
#include "kvist/kv_index/segmented_slots.h"
#include "kvist/kv_index/slot_segment.h"

namespace kvist::kv_index {

/// Allocates units (BlockChunk or LoneBlock) by number in slabs of kUnits, and gives an empty slab back. Numbers begin
/// with kUnits, so that 0 means none. Units that are allocated one after the other are neighbours where possible.
/// Threads: readers in an epoch may call find_shared(). They may get a unit that was freed and used again since they
/// learned its number, but never memory that is gone. Everything else is the writer's.
template <class Unit, std::uint32_t kUnits>
class BlockArena {
 public:
  BlockArena(IndexMemory& memory, Epochs& epochs) : memory_(memory), epochs_(epochs), retired_(epochs) {}
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  [[nodiscard, gnu::always_inline]] Unit& unit(std::uint32_t number) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    return directory->at(number / kUnits).load(std::memory_order_acquire)->units[number % kUnits];
  }
  /// As unit(), for readers; null if the unit's memory is gone by now.
  [[nodiscard]] Unit* find_shared(std::uint32_t number) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    if (directory == nullptr || number / kUnits >= directory->capacity) [[unlikely]]
      return nullptr;
    Slab* const slab = directory->at(number / kUnits).load(std::memory_order_acquire);
    return slab != nullptr ? &slab->units[number % kUnits] : nullptr;
  }

  /// Returns a unit's number, below `kNumbers`. The unit has no blocks, but its places may still tell when earlier
  /// blocks were erased.
  [[nodiscard]] std::uint32_t allocate();
  /// Requires: all its blocks are erased.
  void free(std::uint32_t number);
  /// Makes retired units that no reader can see any more available again.
  void reclaim();
  static constexpr std::uint32_t kNumbers = 1U << 28;

  /// How many slabs exist.
  [[nodiscard]] std::size_t slabs() const { return live_slabs_; }
  /// Calls visit(unit) for one unit that a random number chooses, for samples. Requires: there is a slab.
  template <class Visit>
  void visit_near(std::uint64_t random, Visit visit) const {
    std::size_t slab = random % slabs_.size();
    while (!exists(slab)) slab = slab + 1 == slabs_.size() ? 0 : slab + 1;
    visit(unit(static_cast<std::uint32_t>(slab * kUnits + (random >> 32) % kUnits)));
  }

  /// Units that can be allocated without more memory.
  [[nodiscard]] std::size_t free_units() const { return free_units_; }
  /// How much memory allocating one unit may take at most.
  [[nodiscard]] std::size_t growth_bytes() const;

 private:
  static constexpr std::uint32_t kNone = ~0U;
  static constexpr std::uint32_t kWordBits = 64;

  struct Slab {
    Unit units[kUnits];
  };
  using Address = std::atomic<Slab*>;
  /// Followed by `capacity` addresses of slabs.
  struct Directory {
    std::uint64_t capacity = 0;

    [[nodiscard]] const Address& at(std::size_t i) const { return reinterpret_cast<const Address*>(this + 1)[i]; }
    [[nodiscard]] Address& at(std::size_t i) { return reinterpret_cast<Address*>(this + 1)[i]; }
  };
  /// What the writer knows of a slab.
  struct SlabState {
    std::array<std::uint64_t, (kUnits + kWordBits - 1) / kWordBits> free = {};  // units, a bit each
    std::uint32_t free_units = 0;
    // Neighbours in the list of slabs with free units.
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    bool exists = false;
  };
  static constexpr std::size_t kStateBytes = sizeof(SlabState) + sizeof(std::uint32_t);

  [[nodiscard]] bool exists(std::size_t slab) const { return slabs_[slab].exists; }
  void add_slab();
  void grow_directory();
  void forget_slabs();
  void set_free(std::uint32_t number);
  void link(std::uint32_t slab);
  void unlink(std::uint32_t slab);
  /// Requires: a unit is free.
  [[nodiscard]] static std::uint32_t first_free(const SlabState& state) {
    std::uint32_t word = 0;
    while (state.free[word] == 0) ++word;
    return word * kWordBits + static_cast<std::uint32_t>(std::countr_zero(state.free[word]));
  }
  [[nodiscard]] static std::size_t directory_bytes(std::uint64_t capacity) {
    return sizeof(Directory) + capacity * sizeof(Address);
  }

  IndexMemory& memory_;
  Epochs& epochs_;
  std::atomic<Directory*> directory_ = nullptr;
  std::vector<SlabState> slabs_;     // by number; number 0 is none
  std::vector<std::uint32_t> gone_;  // numbers to be used again
  std::uint32_t first_with_free_ = kNone;
  std::size_t live_slabs_ = 0;
  std::size_t free_units_ = 0;
  RetiredQueue<std::uint32_t> retired_;
};

extern template class BlockArena<BlockChunk, 32>;
extern template class BlockArena<LoneBlock, 256>;

/// The blocks of all prefixes by key, as a tree whose paths are compressed: consecutive blocks lie next to each other,
/// seven to a chunk, and only a chunk's first block is in a hash table. Therefore most blocks are found, put and
/// removed without a search in that table. Where few blocks follow each other, and blocks already take much memory in
/// the mean, a block is stored by itself as a lone block.
///
/// A key stands for the whole prefix that ends with its block. So it has one parent key, and it is in one place at
/// most: behind its parent in the same chunk, or first in another chunk, which counts as a branch of its parent. A
/// block stays as long as another follows it, even if nobody holds it any more.
///
/// Why readers need no locks: a block never moves, and its place is not used for another key while a reader may look at
/// it, so a key and a set that are read one after the other belong together. The hash table keeps 32 bits of each key;
/// what a reader finds there is a hint, which the key in the block confirms or refutes.
/// Threads: readers in an epoch may call hint_shared(), find_shared(), block_shared() and prefetch_head(); everything
/// else is the writer's.
class BlockChains {
 public:
  BlockChains(IndexMemory& memory, Epochs& epochs)
      : memory_(memory),
        epochs_(epochs),
        heads_(memory),
        further_branches_(memory),
        chunks_(memory, epochs),
        lone_(memory, epochs) {}

  /// The key itself, or 1 for the key 0, which marks a place without a block. Keys are hashes, so it does no harm that
  /// two of 2^64 become one.
  [[nodiscard]] static std::uint64_t valid(std::uint64_t key) { return key + (key == 0 ? 1 : 0); }

  /// The number of a block in its chunk, from 0 on, and the likely number of the block that follows `by` blocks later.
  [[nodiscard]] static std::uint32_t number_of(BlockRef block) { return block % kChunkRefs; }
  [[nodiscard]] static std::uint32_t likely_number_behind(std::uint32_t number, std::uint32_t by) {
    return (number + by) % BlockChunk::kBlocks;
  }
  [[nodiscard]] static bool is_lone(BlockRef block) { return (block & kLone) != 0; }

  /// The number of keys that at least one worker holds.
  [[nodiscard]] std::size_t size() const { return held_; }
  [[nodiscard, gnu::always_inline]] IndexedBlock& block(BlockRef ref) const {
    if (is_lone(ref)) [[unlikely]]
      return lone(ref).block;
    return chunk(ref).blocks[number_of(ref)];
  }
  /// Prefetches a block and the end of its chunk, where the writer's part is, for a change at it or behind it.
  void prefetch(BlockRef ref) const {
    if (is_lone(ref)) [[unlikely]]
      return prefetch(lone(ref));
    const BlockChunk& chunk = this->chunk(ref);
    __builtin_prefetch(&chunk.blocks[number_of(ref)]);
    __builtin_prefetch(&chunk.parent);
  }
  /// Prefetches and returns the line that would have the key if its block is the first of a chunk; null while the table
  /// is empty.
  const HeadLine* prefetch_head(std::uint64_t key) const {
    const HeadLine::Hash hash = HeadLine::hash_of(key);
    const Heads::Segment segment = heads_.segment(hash);
    if (segment.count == 0) [[unlikely]]
      return nullptr;
    const HeadLine* const line = segment.home(hash);
    __builtin_prefetch(line);
    return line;
  }
  /// The number that the block with this key has, or would get, in its chunk if it follows this parent.
  [[nodiscard]] std::uint32_t number_behind(BlockRef parent, std::uint64_t key) const {
    if (!in_chunk(parent)) return 0;
    const BlockChunk& chunk = this->chunk(parent);
    const std::uint32_t number = number_of(parent) + 1;
    if (number == BlockChunk::kBlocks) return 0;
    const bool here = number < chunk.filled ? chunk.blocks[number].key() == key : chunk.branches[number - 1] == 0;
    return here ? number : 0;
  }

  /// The block with a key behind a parent, which is 0 at the start of a prompt; 0 if there is none.
  [[nodiscard]] BlockRef find(BlockRef parent, std::uint64_t key);
  /// The block before one, 0 at the start of a prompt.
  [[nodiscard]] BlockRef parent_of(BlockRef ref) const {
    if (is_lone(ref)) return lone(ref).parent;
    return number_of(ref) > 0 ? ref - 1 : chunk(ref).parent;
  }
  /// For readers: a block that may be the one with this key, if that is the first of its chunk; 0 if it certainly is
  /// not.
  [[nodiscard]] BlockRef hint_shared(std::uint64_t key) const {
    const HeadLine::Hash hash = HeadLine::hash_of(key);
    const Heads::Segment segment = heads_.segment(hash);
    return segment.count != 0 ? segment.find_shared(hash) : 0;
  }
  void prefetch_shared(BlockRef hint) const {
    const IndexedBlock* const block = block_shared(hint);
    __builtin_prefetch(block);
    if (!is_lone(hint)) __builtin_prefetch(block + 4);
  }
  /// For readers whose hint was another block: the first block with this key; 0 if there is none.
  [[nodiscard]] BlockRef find_shared(std::uint64_t key) const;
  /// For readers: the block at a place; null if its memory is gone by now.
  [[nodiscard]] IndexedBlock* block_shared(BlockRef ref) const {
    if (is_lone(ref)) {
      LoneBlock* const unit = lone_.find_shared((ref & ~kLone) / kChunkRefs);
      return unit != nullptr ? &unit->block : nullptr;
    }
    BlockChunk* const unit = chunks_.find_shared(ref / kChunkRefs);
    return unit != nullptr ? &unit->blocks[number_of(ref)] : nullptr;
  }
  /// Puts a block right behind its parent in the same chunk, if that is the chunk's last block and has no branch.
  /// Returns 0 otherwise: then the caller needs find() and put().
  [[nodiscard]] BlockRef append(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use);
  /// Puts a block that find() did not find. Returns 0 if its key is that of a block of another prefix: two hashes
  /// collide, by accident or by intent.
  BlockRef put(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use, PlacementHint placement);
  /// Records that a worker holds a block which no worker held.
  void hold(IndexedBlock& block, WorkerSetHandle set, BlockUse use) {
    block.set_use(use);
    block.set_set(set);
    ++held_;
  }
  /// Records that no worker holds a block any more, and removes the block if nothing follows it.
  void let_go(BlockRef ref);
  void reclaim() {
    chunks_.reclaim();
    lone_.reclaim();
  }
  /// Called while memory is short: see SegmentedSlots::tighten_next().
  void tighten_next() { heads_.tighten_next(); }

  /// Calls visit(key, use) for some held blocks near a random number, for samples.
  template <class Visit>
  void visit_near(std::uint64_t random, Visit visit) const {
    const auto visit_held = [&](const IndexedBlock& block) {
      if (block.key() != 0 && block.set() != WorkerSetPool::kEmpty) visit(block.key(), block.use());
    };
    const std::size_t slabs = chunks_.slabs() + lone_.slabs();
    if (slabs == 0) return;
    if (random % slabs < lone_.slabs()) {
      lone_.visit_near(random, [&](const LoneBlock& unit) { visit_held(unit.block); });
    } else {
      chunks_.visit_near(random, [&](const BlockChunk& chunk) { std::ranges::for_each(chunk.blocks, visit_held); });
    }
  }

  /// How much one change may allocate at most. While there are many free units, changes need no memory for blocks.
  [[nodiscard]] std::size_t growth_bytes() const {
    const std::size_t chunks = chunks_.free_units() >= kManyFree ? 0 : chunks_.growth_bytes();
    const std::size_t lone = lone_.free_units() >= kManyFree ? 0 : lone_.growth_bytes();
    return heads_.growth_bytes() + further_branches_.growth_bytes() + std::max(chunks, lone);
  }

 private:
  static constexpr std::size_t kManyFree = 256;  // units
  static constexpr BlockRef kChunkRefs = 8;      // references per chunk; the eighth is unused
  static constexpr BlockRef kLone = 1U << 31;
  using Heads = SegmentedSlots<HeadLine, true, 1024>;

  /// Requires: the reference is that of a block in a chunk (chunk()) or of a lone block (lone()).
  [[nodiscard, gnu::always_inline]] BlockChunk& chunk(BlockRef ref) const { return chunks_.unit(ref / kChunkRefs); }
  [[nodiscard]] LoneBlock& lone(BlockRef ref) const { return lone_.unit((ref & ~kLone) / kChunkRefs); }
  /// Whether the reference is that of a block in a chunk, which is neither 0 nor a lone block's.
  [[nodiscard]] static bool in_chunk(BlockRef ref) { return static_cast<std::int32_t>(ref) > 0; }
  [[nodiscard]] std::uint8_t& branches(BlockRef ref) const {
    return is_lone(ref) ? lone(ref).branches : chunk(ref).branches[number_of(ref)];
  }
  static void prefetch(const LoneBlock& unit) {
    __builtin_prefetch(&unit.block);
    __builtin_prefetch(&unit.branches);
  }
  [[nodiscard]] bool usable(const IndexedBlock& block) const {
    if (!epochs_.has_readers()) return true;
    const std::uint64_t erased = block.erased_in(epochs_.current());
    return erased == 0 || epochs_.passed(erased);
  }
  [[nodiscard]] BlockRef find_head(std::uint64_t key);
  void erase_head(BlockRef first, std::uint64_t key);
  [[nodiscard]] bool worth_a_chunk(BlockRef parent, PlacementHint placement) const;
  [[nodiscard]] BlockRef begin_chunk(BlockRef parent);
  [[nodiscard]] BlockRef make_lone(BlockRef parent);
  void let_go(BlockRef ref, LoneBlock& unit);
  void remove_end(BlockRef last);
  [[nodiscard]] bool erase_end(BlockChunk& chunk);
  void remove_unit(BlockRef ref);
  [[nodiscard]] bool may_go(BlockRef last);
  void add_branch(BlockRef parent);
  void drop_branch(BlockRef parent);

  IndexMemory& memory_;
  Epochs& epochs_;
  Heads heads_;                 // first blocks of chunks, and lone ones
  NameTable further_branches_;  // block -> branches beyond those that its chunk counts
  BlockArena<BlockChunk, 32> chunks_;
  BlockArena<LoneBlock, 256> lone_;
  std::size_t held_ = 0;
};

[[gnu::always_inline]] inline BlockRef BlockChains::append(BlockRef parent, std::uint64_t key, WorkerSetHandle set,
                                                           BlockUse use) {
  if (!in_chunk(parent)) return 0;
  BlockChunk& chunk = this->chunk(parent);
  const std::uint32_t number = number_of(parent) + 1;
  if (number != chunk.filled || number == BlockChunk::kBlocks || chunk.branches[number - 1] != 0) return 0;
  IndexedBlock& block = chunk.blocks[number];
  if (!usable(block)) [[unlikely]]
    return 0;
  block.put(key, set, use);
  ++chunk.filled;
  ++held_;
  return parent + 1;
}

[[gnu::always_inline]] inline BlockRef BlockChains::find(BlockRef parent, std::uint64_t key) {
  if (in_chunk(parent)) {
    const BlockChunk& chunk = this->chunk(parent);
    const std::uint32_t number = number_of(parent);
    if (number + 1 < chunk.filled && chunk.blocks[number + 1].key() == key) return parent + 1;
    if (chunk.branches[number] == 0) [[likely]]
      return 0;
  }
  return find_head(key);
}

[[gnu::always_inline]] inline void BlockChains::let_go(BlockRef ref) {
  --held_;
  if (is_lone(ref)) [[unlikely]]
    return let_go(ref, lone(ref));
  BlockChunk& chunk = this->chunk(ref);
  const std::uint32_t number = number_of(ref);
  IndexedBlock& block = chunk.blocks[number];
  block.set_set(WorkerSetPool::kEmpty);
  if (number + 1 != chunk.filled || chunk.branches[number] != 0) return;
  const bool alone = number != 0 && chunk.blocks[number - 1].set() != WorkerSetPool::kEmpty;
  if (!alone) return remove_end(ref);  // blocks before it may be removed too
  block.erase(epochs_.current());
  --chunk.filled;
}

}  // namespace kvist::kv_index

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

/// Units of blocks (BlockChunk or LoneBlock) by number, from kUnits on, in slabs of kUnits; a slab without units is
/// given back. Units that are allocated one after the other lie one behind the other as far as there is room. Threads:
/// find_shared() for readers in an epoch, who may come upon a unit that was freed and used again since they learned its
/// number, never upon memory that is gone; everything else is the writer's.
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
  /// The same by a reader, who may come too late for it: null.
  [[nodiscard]] Unit* find_shared(std::uint32_t number) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    if (directory == nullptr || number / kUnits >= directory->capacity) [[unlikely]]
      return nullptr;
    Slab* const slab = directory->at(number / kUnits).load(std::memory_order_acquire);
    return slab != nullptr ? &slab->units[number % kUnits] : nullptr;
  }

  /// Its number, below `kNumbers`; nothing in it but marks of blocks that no reader looks at any more.
  [[nodiscard]] std::uint32_t allocate();
  /// All its blocks are erased.
  void free(std::uint32_t number);
  /// Uses again what no reader can see any more.
  void reclaim();
  static constexpr std::uint32_t kNumbers = 1U << 28;

  /// Slabs that there are.
  [[nodiscard]] std::size_t slabs() const { return live_slabs_; }
  /// Calls visit(unit) for some unit near a random number. Requires a slab.
  template <class Visit>
  void visit_near(std::uint64_t random, Visit visit) const {
    std::size_t slab = random % slabs_.size();
    while (!exists(slab)) slab = slab + 1 == slabs_.size() ? 0 : slab + 1;
    visit(unit(static_cast<std::uint32_t>(slab * kUnits + (random >> 32) % kUnits)));
  }

  /// Units that can be allocated without more memory.
  [[nodiscard]] std::size_t free_units() const { return free_units_; }
  /// What allocating one unit may take of the memory.
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
  /// Requires one.
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

/// Blocks by key, as a tree whose paths are compressed: blocks that follow each other lie behind each other, seven to a
/// chunk, and only a chunk's first block is in a hash table. So most blocks are found, put and taken out without a
/// search of their own. Where few blocks follow each other, and blocks already take much memory in the mean, each lies
/// by itself: a lone block is what the only block of a full chunk would be.
///
/// A key stands for all the content before it, so it has one parent key, and it is in one place at most: behind its
/// parent in the same chunk, or first in another chunk that counts as a branch of its parent. A parent stays, even if
/// nobody holds it any more, as long as something follows it.
///
/// Why readers are right without locks: a block never moves, and its place is not used for another key while a reader
/// may look at it, so key and set that are read one after the other belong together. What is found in the hash table,
/// which knows half of each key, is a hint, which the key in the block confirms. Threads: hint_shared(), find_shared(),
/// block_shared() and prefetch_head() for readers in an epoch, everything else for the writer.
class BlockChains {
 public:
  BlockChains(IndexMemory& memory, Epochs& epochs)
      : memory_(memory),
        epochs_(epochs),
        heads_(memory),
        further_branches_(memory),
        chunks_(memory, epochs),
        lone_(memory, epochs) {}

  /// The value that means something else where keys are told stands for another, which nobody will miss: a key is a
  /// hash.
  [[nodiscard]] static std::uint64_t valid(std::uint64_t key) { return key + (key == 0 ? 1 : 0); }

  /// The number of a block in its chunk, and the likely one of the block so many behind it: 0 is the first's.
  [[nodiscard]] static std::uint32_t number_of(BlockRef block) { return block % kChunkRefs; }
  [[nodiscard]] static std::uint32_t likely_number_behind(std::uint32_t number, std::uint32_t by) {
    return (number + by) % BlockChunk::kBlocks;
  }
  [[nodiscard]] static bool is_lone(BlockRef block) { return (block & kLone) != 0; }

  /// Keys that somebody holds.
  [[nodiscard]] std::size_t size() const { return held_; }
  [[nodiscard, gnu::always_inline]] IndexedBlock& block(BlockRef ref) const {
    if (is_lone(ref)) [[unlikely]]
      return lone(ref).block;
    return chunk(ref).blocks[number_of(ref)];
  }
  /// A change behind or at a block comes: it is on its way, with the chunk's end, where the writer's part is.
  void prefetch(BlockRef ref) const {
    if (is_lone(ref)) [[unlikely]]
      return prefetch(lone(ref));
    const BlockChunk& chunk = this->chunk(ref);
    __builtin_prefetch(&chunk.blocks[number_of(ref)]);
    __builtin_prefetch(&chunk.parent);
  }
  /// Where the block with a key is if it is the first of its chunk: on its way. Null while there is none at all.
  const HeadLine* prefetch_head(std::uint64_t key) const {
    const HeadLine::Hash hash = HeadLine::hash_of(key);
    const Heads::Segment segment = heads_.segment(hash);
    if (segment.count == 0) [[unlikely]]
      return nullptr;
    const HeadLine* const line = segment.home(hash);
    __builtin_prefetch(line);
    return line;
  }
  /// The number in its chunk that the block with a key has or will have behind a parent.
  [[nodiscard]] std::uint32_t number_behind(BlockRef parent, std::uint64_t key) const {
    if (!in_chunk(parent)) return 0;
    const BlockChunk& chunk = this->chunk(parent);
    const std::uint32_t number = number_of(parent) + 1;
    if (number == BlockChunk::kBlocks) return 0;
    const bool here = number < chunk.filled ? chunk.blocks[number].key() == key : chunk.branches[number - 1] == 0;
    return here ? number : 0;
  }

  /// The block with a key behind a parent, or without one; 0: there is none.
  [[nodiscard]] BlockRef find(BlockRef parent, std::uint64_t key);
  /// By a reader: a block that may be the one with a key, if that is the first of its chunk; 0: it is not.
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
  /// The one with the key, where the hint was another; 0: there is none.
  [[nodiscard]] BlockRef find_shared(std::uint64_t key) const;
  /// By a reader, who may come too late for it: null.
  [[nodiscard]] IndexedBlock* block_shared(BlockRef ref) const {
    if (is_lone(ref)) {
      LoneBlock* const unit = lone_.find_shared((ref & ~kLone) / kChunkRefs);
      return unit != nullptr ? &unit->block : nullptr;
    }
    BlockChunk* const unit = chunks_.find_shared(ref / kChunkRefs);
    return unit != nullptr ? &unit->blocks[number_of(ref)] : nullptr;
  }
  /// Puts a block right behind its parent, where nothing else ever went on behind it; 0: find() and put() have to.
  [[nodiscard]] BlockRef append(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use);
  /// Puts a block that find() did not find. 0 where its key belongs to another prefix's block: two hashes that are
  /// alike by accident, or because somebody wants them to be.
  BlockRef put(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use, BlockOutlook outlook);
  /// Somebody holds a block again that nobody held.
  void hold(IndexedBlock& block, WorkerSetHandle set, BlockUse use) {
    block.set_use(use);
    block.set_set(set);
    ++held_;
  }
  /// Nobody holds a block any more: it goes if nothing follows it.
  void let_go(BlockRef ref);
  void reclaim() {
    chunks_.reclaim();
    lone_.reclaim();
  }
  /// Where memory is short: see SegmentedSlots::tighten_next().
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

  /// What one change may allocate at most; of many in a row only the first need memory for blocks while there are many
  /// free units.
  [[nodiscard]] std::size_t growth_bytes() const {
    const std::size_t chunks = chunks_.free_units() >= kAmple ? 0 : chunks_.growth_bytes();
    const std::size_t lone = lone_.free_units() >= kAmple ? 0 : lone_.growth_bytes();
    return heads_.growth_bytes() + further_branches_.growth_bytes() + std::max(chunks, lone);
  }

 private:
  static constexpr std::size_t kAmple = 256;  // units
  static constexpr BlockRef kChunkRefs = 8;   // one of which is not of a block
  static constexpr BlockRef kLone = 1U << 31;
  using Heads = SegmentedSlots<HeadLine, true, 1024>;

  /// Of a block that there is.
  [[nodiscard, gnu::always_inline]] BlockChunk& chunk(BlockRef ref) const { return chunks_.unit(ref / kChunkRefs); }
  [[nodiscard]] LoneBlock& lone(BlockRef ref) const { return lone_.unit((ref & ~kLone) / kChunkRefs); }
  /// It is a block, and not a lone one.
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
  [[nodiscard]] bool worth_a_chunk(BlockRef parent, BlockOutlook outlook) const;
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
  if (!alone) return remove_end(ref);  // others may go with it
  block.erase(epochs_.current());
  --chunk.filled;
}

}  // namespace kvist::kv_index

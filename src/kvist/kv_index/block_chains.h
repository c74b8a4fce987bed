// The blocks of all prefixes: the part of the KV index that readers search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kvist/kv_index/block_arena.h"
#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/head_line.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/indexed_block.h"
#include "kvist/kv_index/name_table.h"
#include "kvist/kv_index/segmented_slots.h"

namespace kvist::kv_index {

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

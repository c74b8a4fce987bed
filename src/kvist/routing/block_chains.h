// The blocks of all prefixes: the part of the KV index that readers search.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvist/routing/block_arena.h"
#include "kvist/routing/epochs.h"
#include "kvist/routing/indexed_block.h"
#include "kvist/routing/name_table.h"
#include "kvist/routing/segmented_slots.h"

namespace kvist::routing {

/// Blocks by key, as a tree whose paths are compressed: blocks that follow each other lie behind each other, seven to a
/// chunk, and only a chunk's first block is in a hash table. So most blocks are found, put and taken out without a
/// search of their own.
///
/// A key stands for all the content before it, so it has one parent key, and it is in one place at most: behind its
/// parent in the same chunk, or first in another chunk that counts as a branch of its parent. A parent stays, even if
/// nobody holds it any more, as long as something follows it.
///
/// Why readers are right without locks: a block never moves, and its place is not used for another key while a reader
/// may look at it, so key and set that are read one after the other belong together. What a reader finds in the hash
/// table is a hint, which the key in the chunk confirms. Threads: find_shared(), prefetch_head() and what they
/// lead to for readers in an epoch, everything else for the writer.
class BlockChains {
 public:
  BlockChains(IndexMemory& memory, Epochs& epochs)
      : epochs_(epochs), heads_(memory), further_branches_(memory), arena_(memory, epochs) {}

  /// The value that means something else where keys are told stands for another, which nobody will miss: a key is a
  /// hash.
  [[nodiscard]] static std::uint64_t valid(std::uint64_t key) { return key != 0 ? key : 1; }

  /// The number of a block in its chunk, and the likely one of the block behind that: 0 is the first's.
  [[nodiscard]] static std::uint32_t number_of(BlockRef block) { return BlockArena::number_in_chunk(block); }
  [[nodiscard]] static std::uint32_t likely_number_behind(std::uint32_t number) {
    return number + 1 == BlockChunk::kBlocks ? 0 : number + 1;
  }

  /// Keys that somebody holds.
  [[nodiscard]] std::size_t size() const { return held_; }
  [[nodiscard, gnu::always_inline]] IndexedBlock& block(BlockRef ref) const { return arena_.block(ref); }
  /// A change behind or at a block comes: it is on its way, with the chunk's end, where the writer's part is.
  void prefetch(BlockRef ref) const {
    const BlockChunk& chunk = arena_.chunk(ref);
    __builtin_prefetch(&chunk.blocks[BlockArena::number_in_chunk(ref)]);
    __builtin_prefetch(&chunk.parent);
  }
  /// Where the block with a key is if it is the first of its chunk: on its way. Null while there is none at all.
  const HashLine* prefetch_head(std::uint64_t key) const {
    const SlotSegment segment = heads_.segment(key);
    if (segment.count == 0) [[unlikely]]
      return nullptr;
    const HashLine* const line = segment.home(key);
    __builtin_prefetch(line);
    return line;
  }
  /// The number in its chunk that the block with a key has or will have behind a parent.
  [[nodiscard]] std::uint32_t number_behind(BlockRef parent, std::uint64_t key) const {
    if (parent == 0) return 0;
    const BlockChunk& chunk = arena_.chunk(parent);
    const std::uint32_t number = number_of(parent) + 1;
    if (number == BlockChunk::kBlocks) return 0;
    const bool here = number < chunk.filled ? chunk.blocks[number].key() == key : chunk.branches[number - 1] == 0;
    return here ? number : 0;
  }

  /// The block with a key behind a parent, or without one; 0: there is none.
  [[nodiscard]] BlockRef find(BlockRef parent, std::uint64_t key);
  /// Where the block with a key may be if it is the first of its chunk, by a reader; null: it is not.
  [[nodiscard]] IndexedBlock* find_shared(std::uint64_t key) const {
    const SlotSegment segment = heads_.segment(key);
    if (segment.count == 0) return nullptr;
    const SlotSegment::Place place = segment.find_shared(key);
    return place.line != nullptr ? arena_.find_shared(place.line->value(place.slot)) : nullptr;
  }
  /// Puts a block right behind its parent, where nothing else ever went on behind it; 0: find() and put() have to.
  [[nodiscard]] BlockRef append(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use);
  /// Puts a block that find() did not find. 0 where its key belongs to another prefix's block: two hashes that are
  /// alike by accident, or because somebody wants them to be.
  BlockRef put(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use);
  /// Somebody holds a block again that nobody held.
  void hold(IndexedBlock& block, WorkerSetHandle set, BlockUse use) {
    block.set_use(use);
    block.set_set(set);
    ++held_;
  }
  /// Nobody holds a block any more: it goes if nothing follows it.
  void let_go(BlockRef ref);
  void reclaim() { arena_.reclaim(); }

  /// Calls visit(key, use) for some held blocks near a random number, for samples.
  template <class Visit>
  void visit_near(std::uint64_t random, Visit visit) const {
    arena_.visit_near(random, [&](const IndexedBlock& block) {
      if (block.key() != 0 && block.set() != WorkerSetPool::kEmpty) visit(block.key(), block.use());
    });
  }

  /// Bytes that new blocks can take without more memory.
  [[nodiscard]] std::size_t free_bytes() const { return arena_.free_bytes(); }
  /// What one change may allocate at most; of many in a row only the first need memory for blocks while there are
  /// free_bytes().
  [[nodiscard]] std::size_t growth_bytes() const {
    const std::size_t chunks = free_bytes() >= kAmple ? 0 : arena_.growth_bytes();
    return heads_.growth_bytes() + further_branches_.growth_bytes() + chunks;
  }

 private:
  static constexpr std::size_t kAmple = 256 * sizeof(BlockChunk);
  using Heads = SegmentedSlots<true, 1024>;

  [[nodiscard]] bool usable(const IndexedBlock& block) const {
    if (!epochs_.has_readers()) return true;
    const std::uint64_t erased = block.erased_in(epochs_.current());
    return erased == 0 || epochs_.passed(erased);
  }
  void add_branch(BlockRef parent);
  void drop_branch(BlockRef parent);

  Epochs& epochs_;
  Heads heads_;                 // key of a chunk's first block -> its place
  NameTable further_branches_;  // block -> branches beyond those that its chunk counts
  BlockArena arena_;
  std::size_t held_ = 0;
};

[[gnu::always_inline]] inline BlockRef BlockChains::append(BlockRef parent, std::uint64_t key, WorkerSetHandle set,
                                                           BlockUse use) {
  if (parent == 0) return 0;
  BlockChunk& chunk = arena_.chunk(parent);
  const std::uint32_t number = BlockArena::number_in_chunk(parent) + 1;
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
  if (parent != 0) {
    const BlockChunk& chunk = arena_.chunk(parent);
    const std::uint32_t number = BlockArena::number_in_chunk(parent);
    if (number + 1 < chunk.filled && chunk.blocks[number + 1].key() == key) return parent + 1;
    if (chunk.branches[number] == 0) [[likely]]
      return 0;
  }
  const Heads::Place place = heads_.find(Heads::not_fetched(key));
  return place.line != nullptr ? place.line->value(place.slot) : 0;
}

}  // namespace kvist::routing

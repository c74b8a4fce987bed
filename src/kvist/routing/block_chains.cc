#include "kvist/routing/block_chains.h"

namespace kvist::routing {

BlockRef BlockChains::put(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use) {
  if (parent != 0) {
    BlockChunk& chunk = arena_.chunk(parent);
    const std::uint32_t number = BlockArena::number_in_chunk(parent) + 1;
    if (number == chunk.filled && number < BlockChunk::kBlocks && usable(chunk.blocks[number])) [[likely]] {
      chunk.blocks[number].put(key, set, use);
      ++chunk.filled;
      ++held_;
      return parent + 1;
    }
  }
  if (heads_.find(Heads::not_fetched(key)).line != nullptr) [[unlikely]]
    return 0;
  const BlockRef first = arena_.allocate();
  BlockChunk& chunk = arena_.chunk(first);
  chunk.parent = parent;
  chunk.branches.fill(0);
  chunk.filled = 1;
  chunk.blocks[0].put(key, set, use);
  heads_.put(Heads::not_fetched(key), first);
  if (parent != 0) add_branch(parent);
  ++held_;
  return first;
}

void BlockChains::let_go(BlockRef ref) {
  arena_.block(ref).set_set(WorkerSetPool::kEmpty);
  --held_;
  while (ref != 0) {
    BlockChunk& chunk = arena_.chunk(ref);
    if (BlockArena::number_in_chunk(ref) + 1 != chunk.filled) return;
    std::uint64_t key = 0;
    while (chunk.filled > 0) {
      IndexedBlock& last = chunk.blocks[chunk.filled - 1U];
      if (last.set() != WorkerSetPool::kEmpty || chunk.branches[chunk.filled - 1U] != 0) return;
      key = last.key();
      last.erase(epochs_.current());
      --chunk.filled;
    }
    const Heads::Place place = heads_.find(Heads::not_fetched(key));
    place.line->erase(place.slot);
    if (heads_.size() == 1) {
      heads_.clear();
    } else {
      heads_.removed(place, key);
    }
    const BlockRef parent = chunk.parent;
    arena_.free(ref - BlockArena::number_in_chunk(ref));
    if (parent != 0) drop_branch(parent);
    ref = parent;
  }
}

void BlockChains::add_branch(BlockRef parent) {
  std::uint8_t& branches = arena_.chunk(parent).branches[BlockArena::number_in_chunk(parent)];
  if (branches < BlockChunk::kMostBranches) {
    ++branches;
    return;
  }
  const std::uint32_t further = further_branches_.insert(NameDigest(parent), 1);
  if (further != 0) further_branches_.set(NameDigest(parent), further + 1);
}

void BlockChains::drop_branch(BlockRef parent) {
  std::uint8_t& branches = arena_.chunk(parent).branches[BlockArena::number_in_chunk(parent)];
  const std::uint32_t further = branches < BlockChunk::kMostBranches ? 0 : further_branches_.find(NameDigest(parent));
  if (further == 0) {
    --branches;
  } else if (further == 1) {
    further_branches_.erase(NameDigest(parent));
  } else {
    further_branches_.set(NameDigest(parent), further - 1);
  }
}

}  // namespace kvist::routing

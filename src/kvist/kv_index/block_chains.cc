#include "kvist/kv_index/block_chains.h"

namespace kvist::kv_index {

BlockRef BlockChains::find_shared(std::uint64_t key) const {
  const HeadLine::Hash hash = HeadLine::hash_of(key);
  const Heads::Segment segment = heads_.segment(hash);
  if (segment.count == 0) return 0;
  return segment.find_shared(hash, [&](BlockRef ref) {
    const IndexedBlock* const block = block_shared(ref);
    return block != nullptr && block->key() == key;
  });
}

BlockRef BlockChains::find_head(std::uint64_t key) {
  const auto has_key = [&](BlockRef ref) { return block(ref).key() == key; };
  const Heads::Place place = heads_.find(HeadLine::hash_of(key), has_key);
  return place.line != nullptr ? place.line->value(place.slot) : 0;
}

void BlockChains::erase_head(BlockRef first, std::uint64_t key) {
  const HeadLine::Hash hash = HeadLine::hash_of(key);
  const Heads::Place place = heads_.find(hash, [&](BlockRef ref) { return ref == first; });
  place.line->erase(place.slot);
  if (heads_.size() == 1) {
    heads_.clear();
  } else {
    heads_.removed(place, hash);
  }
}

BlockRef BlockChains::put(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use, BlockOutlook outlook) {
  if (in_chunk(parent)) {
    BlockChunk& chunk = this->chunk(parent);
    const std::uint32_t number = number_of(parent) + 1;
    if (number == chunk.filled && number < BlockChunk::kBlocks && usable(chunk.blocks[number])) [[likely]] {
      chunk.blocks[number].put(key, set, use);
      ++chunk.filled;
      ++held_;
      return parent + 1;
    }
    // Behind any other block find() has looked there.
    if (chunk.branches[number - 1] == 0 && find_head(key) != 0) [[unlikely]]
      return 0;
  }
  const BlockRef first = worth_a_chunk(parent, outlook) ? begin_chunk(parent) : make_lone(parent);
  block(first).put(key, set, use);
  heads_.put(HeadLine::hash_of(key), first);
  if (parent != 0) add_branch(parent);
  ++held_;
  return first;
}

/// Whether what comes behind a parent takes less memory in a chunk than by itself, or memory is there. What a full
/// chunk saves pays for the emptiest one, so a path that has grown to one stays in chunks as it grows on. One that
/// grows behind a lone block is likely to grow on too, so that its chunks pay for themselves.
bool BlockChains::worth_a_chunk(BlockRef parent, BlockOutlook outlook) const {
  constexpr std::size_t kWorthIt = 4;  // blocks
  // Bytes per block up to which there is memory. A growing path's limit is above that of roomy tables, which would
  // leave none, and a little below what a block may take.
  constexpr std::size_t kPlenty = 54;
  constexpr std::size_t kEnough = IndexMemory::kBytesPerBlock + 1;
  if (outlook.coming >= kWorthIt) return true;
  const bool first_behind = parent != 0 && branches(parent) == 0;
  if (first_behind && in_chunk(parent) && number_of(parent) + 1 == BlockChunk::kBlocks) return true;
  return memory_.ample(first_behind && outlook.grows && is_lone(parent) ? kEnough : kPlenty);
}

BlockRef BlockChains::begin_chunk(BlockRef parent) {
  const BlockRef first = chunks_.allocate() * kChunkRefs;
  BlockChunk& chunk = this->chunk(first);
  chunk.parent = parent;
  chunk.branches.fill(0);
  chunk.filled = 1;
  return first;
}

BlockRef BlockChains::make_lone(BlockRef parent) {
  const BlockRef ref = lone_.allocate() * kChunkRefs | kLone;
  lone(ref).parent = parent;
  lone(ref).branches = 0;
  return ref;
}

void BlockChains::let_go(BlockRef ref, LoneBlock& unit) {
  unit.block.set_set(WorkerSetPool::kEmpty);
  if (unit.branches == 0) remove_unit(ref);
}

/// Of a chunk, from its last block on.
void BlockChains::remove_end(BlockRef last) {
  if (erase_end(chunk(last))) remove_unit(last);
}

/// What nobody holds and nothing follows goes from a chunk's end on. Whether that is all but the first block, which is
/// left, but may go as well.
bool BlockChains::erase_end(BlockChunk& chunk) {
  while (true) {
    const std::uint32_t number = chunk.filled - 1U;
    IndexedBlock& last = chunk.blocks[number];
    if (last.set() != WorkerSetPool::kEmpty || chunk.branches[number] != 0) return false;
    if (number == 0) return true;
    last.erase(epochs_.current());
    --chunk.filled;
  }
}

/// Of the one block that is left in it, and then of those before it that only it kept.
void BlockChains::remove_unit(BlockRef ref) {
  while (true) {
    const BlockRef first = ref - number_of(ref);
    IndexedBlock& block = this->block(first);
    const BlockRef parent = is_lone(first) ? lone(first).parent : chunk(first).parent;
    erase_head(first, block.key());
    block.erase(epochs_.current());
    if (is_lone(first)) {
      lone_.free((first & ~kLone) / kChunkRefs);
    } else {
      chunks_.free(first / kChunkRefs);
    }
    if (parent == 0) return;
    drop_branch(parent);
    if (!may_go(parent)) return;
    ref = parent;
  }
}

bool BlockChains::may_go(BlockRef last) {
  if (is_lone(last)) return lone(last).block.set() == WorkerSetPool::kEmpty && lone(last).branches == 0;
  BlockChunk& chunk = this->chunk(last);
  return number_of(last) + 1 == chunk.filled && erase_end(chunk);
}

void BlockChains::add_branch(BlockRef parent) {
  std::uint8_t& branches = this->branches(parent);
  if (branches < BlockChunk::kMostBranches) {
    ++branches;
    return;
  }
  const std::uint32_t further = further_branches_.insert(NameDigest(parent), 1);
  if (further != 0) further_branches_.set(NameDigest(parent), further + 1);
}

void BlockChains::drop_branch(BlockRef parent) {
  std::uint8_t& branches = this->branches(parent);
  const std::uint32_t further = branches < BlockChunk::kMostBranches ? 0 : further_branches_.find(NameDigest(parent));
  if (further == 0) {
    --branches;
  } else if (further == 1) {
    further_branches_.erase(NameDigest(parent));
  } else {
    further_branches_.set(NameDigest(parent), further - 1);
  }
}

}  // namespace kvist::kv_index

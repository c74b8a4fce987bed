#include "kvist/kv_index/block_chains.h"

#include <new>

#include "kvist/base/check.h"

namespace kvist::kv_index {
namespace {

constexpr std::uint64_t kFirstCapacity = 15;  // with the count, whole cache lines
constexpr std::size_t kLine = 64;

}  // namespace

template <class Unit, std::uint32_t kUnits>
BlockArena<Unit, kUnits>::~BlockArena() {
  Directory* const directory = directory_.load();
  if (directory == nullptr) return;
  for (std::size_t slab = 0; slab < slabs_.size(); ++slab) {
    if (exists(slab)) memory_.release(directory->at(slab).load(), sizeof(Slab));
  }
  memory_.release(directory, directory_bytes(directory->capacity));
}

template <class Unit, std::uint32_t kUnits>
std::uint32_t BlockArena<Unit, kUnits>::allocate() {
  if (first_with_free_ == kNone) [[unlikely]]
    add_slab();
  const std::uint32_t slab = first_with_free_;
  SlabState& state = slabs_[slab];
  const std::uint32_t unit_in_slab = first_free(state);
  state.free[unit_in_slab / kWordBits] &= ~(std::uint64_t{1} << (unit_in_slab % kWordBits));
  --free_units_;
  if (--state.free_units == 0) {
    unlink(slab);
  } else {
    const char* const next = reinterpret_cast<const char*>(&unit(slab * kUnits + first_free(state)));
    for (std::size_t at = 0; at < sizeof(Unit); at += kLine) __builtin_prefetch(next + at, 1);
  }
  return slab * kUnits + unit_in_slab;
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::free(std::uint32_t number) {
  if (!epochs_.has_readers()) return set_free(number);
  retired_.add(number);
  memory_.count(retired_.kBytes);
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::reclaim() {
  retired_.reclaim([this](std::uint32_t number) {
    set_free(number);
    memory_.count(-retired_.kBytes);
  });
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::set_free(std::uint32_t number) {
  const std::uint32_t slab = number / kUnits;
  SlabState& state = slabs_[slab];
  if (state.free_units == 0) link(slab);
  const std::uint32_t unit_in_slab = number % kUnits;
  state.free[unit_in_slab / kWordBits] |= std::uint64_t{1} << (unit_in_slab % kWordBits);
  ++free_units_;
  if (++state.free_units != kUnits) return;
  unlink(slab);
  free_units_ -= kUnits;
  state = {};
  --live_slabs_;
  gone_.push_back(slab);
  // The slab's directory entry stays, so readers that still have a reference to one of its units find no block there.
  memory_.retire(directory_.load()->at(slab).load(), sizeof(Slab));
  if (live_slabs_ == 0) forget_slabs();
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::forget_slabs() {
  Directory* const directory = directory_.exchange(nullptr);
  memory_.count(-static_cast<std::ptrdiff_t>(directory->capacity * kStateBytes));
  memory_.retire(directory, directory_bytes(directory->capacity));
  slabs_ = {};
  gone_ = {};
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::add_slab() {
  if (slabs_.empty()) slabs_.emplace_back();  // so that no unit has the number 0
  Directory* const before = directory_.load();
  if (gone_.empty() && (before == nullptr || slabs_.size() == before->capacity)) grow_directory();
  auto slab = static_cast<std::uint32_t>(slabs_.size());
  if (gone_.empty()) {
    slabs_.emplace_back();
  } else {
    slab = gone_.back();
    gone_.pop_back();
  }
  auto* const made = static_cast<Slab*>(memory_.allocate(sizeof(Slab)));
  directory_.load()->at(slab).store(made, std::memory_order_release);
  SlabState& state = slabs_[slab];
  for (std::uint32_t unit_in_slab = 0; unit_in_slab < kUnits; ++unit_in_slab) {
    state.free[unit_in_slab / kWordBits] |= std::uint64_t{1} << (unit_in_slab % kWordBits);
  }
  state.free_units = kUnits;
  state.exists = true;
  ++live_slabs_;
  free_units_ += kUnits;
  link(slab);
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::grow_directory() {
  Directory* const old = directory_.load();
  const std::uint64_t held = old == nullptr ? 0 : old->capacity;
  const std::uint64_t capacity = old == nullptr ? kFirstCapacity : 2 * held + 1;
  KVIST_CHECK(capacity <= kNumbers / kUnits, "more blocks than references tell apart");
  auto* const made = new (memory_.allocate(directory_bytes(capacity))) Directory{.capacity = capacity};
  for (std::size_t i = 0; i < held; ++i) made->at(i).store(old->at(i).load(), std::memory_order_relaxed);
  directory_.store(made, std::memory_order_release);
  if (old != nullptr) memory_.retire(old, directory_bytes(held));
  slabs_.reserve(capacity);
  gone_.reserve(capacity);
  memory_.count(static_cast<std::ptrdiff_t>((capacity - held) * kStateBytes));
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::link(std::uint32_t slab) {
  slabs_[slab].previous = kNone;
  slabs_[slab].next = first_with_free_;
  if (first_with_free_ != kNone) slabs_[first_with_free_].previous = slab;
  first_with_free_ = slab;
}

template <class Unit, std::uint32_t kUnits>
void BlockArena<Unit, kUnits>::unlink(std::uint32_t slab) {
  const SlabState& state = slabs_[slab];
  if (state.previous != kNone) slabs_[state.previous].next = state.next;
  if (state.next != kNone) slabs_[state.next].previous = state.previous;
  if (first_with_free_ == slab) first_with_free_ = state.next;
}

template <class Unit, std::uint32_t kUnits>
std::size_t BlockArena<Unit, kUnits>::growth_bytes() const {
  const Directory* const directory = directory_.load(std::memory_order_relaxed);
  const std::uint64_t capacity = directory == nullptr ? kFirstCapacity : 2 * directory->capacity + 1;
  const bool full = directory == nullptr || (gone_.empty() && slabs_.size() == directory->capacity);
  return sizeof(Slab) + IndexMemory::kAlignment +
         (full ? directory_bytes(capacity) + IndexMemory::kAlignment + capacity * kStateBytes : 0);
}

template class BlockArena<BlockChunk, 32>;
template class BlockArena<LoneBlock, 256>;

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

BlockRef BlockChains::put(BlockRef parent, std::uint64_t key, WorkerSetHandle set, BlockUse use,
                          PlacementHint placement) {
  if (in_chunk(parent)) {
    BlockChunk& chunk = this->chunk(parent);
    const std::uint32_t number = number_of(parent) + 1;
    if (number == chunk.filled && number < BlockChunk::kBlocks && usable(chunk.blocks[number])) [[likely]] {
      chunk.blocks[number].put(key, set, use);
      ++chunk.filled;
      ++held_;
      return parent + 1;
    }
    // The caller's find() has looked in the table of first blocks only where the parent has branches.
    if (chunk.branches[number - 1] == 0 && find_head(key) != 0) [[unlikely]]
      return 0;
  }
  const BlockRef first = worth_a_chunk(parent, placement) ? begin_chunk(parent) : make_lone(parent);
  block(first).put(key, set, use);
  heads_.put(HeadLine::hash_of(key), first);
  if (parent != 0) add_branch(parent);
  ++held_;
  return first;
}

/// Whether the blocks behind a parent should be stored in a chunk: because that takes less memory than lone blocks, or
/// because there is enough memory. A full chunk saves more than the emptiest chunk wastes, so a path that fills a chunk
/// continues in chunks. A path that grows behind a lone block is likely to grow further, so that its chunks save memory
/// as well.
bool BlockChains::worth_a_chunk(BlockRef parent, PlacementHint placement) const {
  constexpr std::size_t kWorthIt = 4;  // blocks
  // The mean bytes per block up to which there is enough memory. The limit for a growing path is above kBytesPerBlock,
  // because tables with many free slots would otherwise leave none for it, and a little below the 64 bytes that a block
  // may take.
  constexpr std::size_t kPlenty = 54;
  constexpr std::size_t kEnough = IndexMemory::kBytesPerBlock + 1;
  if (placement.coming >= kWorthIt) return true;
  const bool first_behind = parent != 0 && branches(parent) == 0;
  if (first_behind && in_chunk(parent) && number_of(parent) + 1 == BlockChunk::kBlocks) return true;
  return memory_.averages_below(first_behind && placement.grows && is_lone(parent) ? kEnough : kPlenty);
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

/// Removes blocks from the end of a chunk.
void BlockChains::remove_end(BlockRef last) {
  if (erase_end(chunk(last))) remove_unit(last);
}

/// Erases blocks from the end of a chunk as long as no worker holds them and nothing follows them. Keeps the first
/// block; returns whether it may be removed too.
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

/// Removes a unit with its one remaining block, and then the preceding blocks that were kept only for it.
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

#include "kvist/routing/block_arena.h"

#include <bit>
#include <new>

#include "kvist/base/check.h"

namespace kvist::routing {
namespace {

constexpr std::uint64_t kFirstCapacity = 15;  // with the count, whole cache lines

}  // namespace

BlockArena::~BlockArena() {
  Directory* const directory = directory_.load();
  if (directory == nullptr) return;
  for (std::size_t slab = 0; slab < slabs_.size(); ++slab) {
    if (exists(slab)) memory_.release(directory->at(slab).load(), sizeof(Slab));
  }
  memory_.release(directory, directory_bytes(directory->capacity));
}

BlockRef BlockArena::allocate() {
  if (first_with_free_ == kNone) [[unlikely]]
    add_slab();
  const std::uint32_t slab = first_with_free_;
  SlabState& state = slabs_[slab];
  const auto number = static_cast<std::uint32_t>(std::countr_zero(state.free));
  state.free &= state.free - 1;
  --free_chunks_;
  if (state.free == 0) {
    unlink(slab);
  } else {
    const BlockRef next = slab * kSlabRefs + static_cast<std::uint32_t>(std::countr_zero(state.free)) * kChunkRefs;
    const char* const memory = reinterpret_cast<const char*>(&chunk(next));
    __builtin_prefetch(memory, 1);
    __builtin_prefetch(memory + 64, 1);
  }
  return slab * kSlabRefs + number * kChunkRefs;
}

void BlockArena::free(BlockRef first) {
  if (!epochs_.has_readers()) return set_free(first);
  retired_.push_back({.epoch = epochs_.current(), .first = first});
  memory_.count(sizeof(Retired));
}

void BlockArena::reclaim() {
  while (!retired_.empty() && epochs_.passed(retired_.front().epoch)) {
    set_free(retired_.front().first);
    retired_.pop_front();
    memory_.count(-static_cast<std::ptrdiff_t>(sizeof(Retired)));
  }
}

void BlockArena::set_free(BlockRef first) {
  const std::uint32_t slab = first / kSlabRefs;
  SlabState& state = slabs_[slab];
  if (state.free == 0) link(slab);
  state.free |= 1U << (first % kSlabRefs / kChunkRefs);
  ++free_chunks_;
  if (state.free != kAllFree) return;
  unlink(slab);
  free_chunks_ -= kSlabChunks;
  state.free = 0;
  state.exists = false;
  --live_slabs_;
  gone_.push_back(slab);
  // Its address stays: readers who know a chunk of it find no block there as long as they may look.
  memory_.retire(directory_.load()->at(slab).load(), sizeof(Slab));
  if (live_slabs_ == 0) forget_slabs();
}

void BlockArena::forget_slabs() {
  Directory* const directory = directory_.exchange(nullptr);
  memory_.count(-static_cast<std::ptrdiff_t>(directory->capacity * kStateBytes));
  memory_.retire(directory, directory_bytes(directory->capacity));
  slabs_ = {};
  gone_ = {};
}

void BlockArena::add_slab() {
  if (slabs_.empty()) slabs_.emplace_back();  // so that no block is at 0
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
  slabs_[slab].free = kAllFree;
  slabs_[slab].exists = true;
  ++live_slabs_;
  free_chunks_ += kSlabChunks;
  link(slab);
}

void BlockArena::grow_directory() {
  Directory* const old = directory_.load();
  const std::uint64_t held = old == nullptr ? 0 : old->capacity;
  const std::uint64_t capacity = old == nullptr ? kFirstCapacity : 2 * held + 1;
  KVIST_CHECK(capacity < kNone / kSlabRefs, "more blocks than 32 bits number");
  auto* const made = new (memory_.allocate(directory_bytes(capacity))) Directory{.capacity = capacity};
  for (std::size_t i = 0; i < held; ++i) made->at(i).store(old->at(i).load(), std::memory_order_relaxed);
  directory_.store(made, std::memory_order_release);
  if (old != nullptr) memory_.retire(old, directory_bytes(held));
  slabs_.reserve(capacity);
  gone_.reserve(capacity);
  memory_.count(static_cast<std::ptrdiff_t>((capacity - held) * kStateBytes));
}

void BlockArena::link(std::uint32_t slab) {
  slabs_[slab].previous = kNone;
  slabs_[slab].next = first_with_free_;
  if (first_with_free_ != kNone) slabs_[first_with_free_].previous = slab;
  first_with_free_ = slab;
}

void BlockArena::unlink(std::uint32_t slab) {
  const SlabState& state = slabs_[slab];
  if (state.previous != kNone) slabs_[state.previous].next = state.next;
  if (state.next != kNone) slabs_[state.next].previous = state.previous;
  if (first_with_free_ == slab) first_with_free_ = state.next;
}

std::size_t BlockArena::growth_bytes() const {
  const Directory* const directory = directory_.load(std::memory_order_relaxed);
  const std::uint64_t capacity = directory == nullptr ? kFirstCapacity : 2 * directory->capacity + 1;
  const bool full = directory == nullptr || (gone_.empty() && slabs_.size() == directory->capacity);
  return sizeof(Slab) + IndexMemory::kAlignment +
         (full ? directory_bytes(capacity) + IndexMemory::kAlignment + capacity * kStateBytes : 0);
}

}  // namespace kvist::routing

#include "kvist/kv_index/block_arena.h"

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
  // Its address stays: readers who know a unit of it find no block there as long as they may look.
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
  if (slabs_.empty()) slabs_.emplace_back();  // so that no unit is number 0
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

}  // namespace kvist::kv_index

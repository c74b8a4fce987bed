#include "kvist/kv_index/index_memory.h"

#include <sys/mman.h>
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::kv_index {
namespace {

constexpr std::size_t kPage = 4096;

// Blocks from malloc are aligned by hand: glibc's aligned allocation splits and merges free blocks each time, which
// costs more than filling them. The address that malloc gave lies in front of each block.
constexpr std::size_t kBefore = IndexMemory::kAlignment;

// A smaller index is not worth a huge page.
constexpr std::size_t kSmallIndex = std::size_t{2} << 20;
// Larger blocks would leave large gaps in extents.
constexpr std::size_t kMostHuge = HugeHeap::kExtent / 4;

/// Decided by the address: IndexMemory ensures that malloc's blocks never have this alignment.
bool of_huge_heap(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) % HugeHeap::kGranule == 0;
}

}  // namespace

std::size_t HugeHeap::Extent::end_of_free(std::size_t at) const {
  while (at < kGranules) {
    const auto row = static_cast<std::size_t>(std::countr_zero(used[at / 64] >> (at % 64)));
    if (row < 64 - at % 64) return at + row;
    at += 64 - at % 64;
  }
  return kGranules;
}

std::size_t HugeHeap::Extent::begin_of_free(std::size_t at) const {
  while (at > 0) {
    const std::size_t last = at - 1;
    const auto row = static_cast<std::size_t>(std::countl_zero(used[last / 64] << (63 - last % 64)));
    if (row < last % 64 + 1) return at - row;
    at -= last % 64 + 1;
  }
  return 0;
}

std::size_t HugeHeap::Extent::end_of_used(std::size_t at) const {
  while (at < kGranules) {
    const auto row = static_cast<std::size_t>(std::countr_one(used[at / 64] >> (at % 64)));
    if (row < 64 - at % 64) return at + row;
    at += 64 - at % 64;
  }
  return kGranules;
}

std::size_t HugeHeap::Extent::find(std::size_t granules) const {
  for (std::size_t at = end_of_used(0); at < kGranules;) {
    const std::size_t end = end_of_free(at);
    if (end - at >= granules) return at;
    at = end_of_used(end);
  }
  return kGranules;
}

void HugeHeap::Extent::mark(std::size_t from, std::size_t granules, bool as_used) {
  const std::size_t end = from + granules;
  KVIST_CHECK((as_used ? end_of_free(from) : end_of_used(from)) >= end, "a block is taken once and given back once");
  for (std::size_t at = from; at < end;) {
    const std::size_t here = std::min(end - at, 64 - at % 64);
    used[at / 64] ^= (~std::uint64_t{0} >> (64 - here)) << (at % 64);
    at += here;
  }
  free = as_used ? free - granules : free + granules;
}

void* HugeHeap::Extent::take(std::size_t from, std::size_t granules) {
  mark(from, granules, /*as_used=*/true);
  was_full = was_full || free < kGranules / 8;
  std::byte* const block = base + from * kGranule;
  const std::size_t used_before = std::min(granules, fresh - std::min(fresh, from));
  std::memset(block, 0, used_before * kGranule);
  fresh = std::max(fresh, from + granules);
  return block;
}

void HugeHeap::Extent::release(std::size_t from, std::size_t granules) {
  const auto mostly_free = [this] { return was_full && free > kGranules / 2; };
  const bool was_mostly_free = mostly_free();
  mark(from, granules, /*as_used=*/false);
  const std::size_t end = end_of_free(from + granules);
  from = begin_of_free(from);
  longest = std::max(longest, end - from);
  if (was_mostly_free) {
    give_back(from, end);
  } else if (mostly_free()) {
    give_back_all();
  }
}

void HugeHeap::Extent::give_back(std::size_t from, std::size_t end) const {
  const std::size_t first = (from * kGranule + kPage - 1) / kPage * kPage;
  const std::size_t last = end * kGranule / kPage * kPage;
  if (first < last) ::madvise(base + first, last - first, MADV_DONTNEED);
}

void HugeHeap::Extent::give_back_all() const {
  for (std::size_t at = end_of_used(0); at < kGranules;) {
    const std::size_t end = end_of_free(at);
    give_back(at, end);
    at = end_of_used(end);
  }
}

HugeHeap::~HugeHeap() {
  for (const Extent& extent : extents_) ::munmap(extent.base, kExtent);
}

/// Returns the number of the new extent, or extents_.size() if the kernel gives no memory.
std::size_t HugeHeap::add_extent() {
  // Twice the size contains an aligned extent; the rest goes back to the kernel.
  void* const given = ::mmap(nullptr, 2 * kExtent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (given == MAP_FAILED) return extents_.size();
  auto* const begin = static_cast<std::byte*>(given);
  const std::size_t before = (kExtent - reinterpret_cast<std::uintptr_t>(given) % kExtent) % kExtent;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + kExtent, kExtent - before);
  ::madvise(begin + before, kExtent, MADV_HUGEPAGE);  // if the kernel refuses, pages are small
  const auto at = std::ranges::lower_bound(extents_, begin + before, {}, &Extent::base);
  const auto added = extents_.insert(at, Extent{.base = begin + before});
  first_candidate_ = {};
  return static_cast<std::size_t>(added - extents_.begin());
}

void* HugeHeap::allocate(std::size_t bytes) {
  KVIST_CHECK(bytes > 0 && bytes <= kExtent, "a block takes 1 byte to a whole extent");
  const std::size_t granules = rounded(bytes) / kGranule;
  std::size_t& first = first_candidate_[class_of(granules)];
  for (std::size_t i = first; i < extents_.size(); ++i) {
    Extent& extent = extents_[i];
    if (extent.longest >= granules) {
      if (const std::size_t from = extent.find(granules); from != kGranules) return extent.take(from, granules);
      extent.longest = granules - 1;
    }
    if (i == first && extent.longest < least_of(class_of(granules))) ++first;
  }
  const std::size_t added = add_extent();
  return added < extents_.size() ? extents_[added].take(0, granules) : nullptr;
}

void HugeHeap::release(void* block, std::size_t bytes) {
  auto* const at = static_cast<std::byte*>(block);
  const auto after = std::ranges::upper_bound(extents_, at, {}, &Extent::base);
  KVIST_CHECK(after != extents_.begin() && at < std::prev(after)->base + kExtent, "a block is of this heap");
  Extent& extent = *std::prev(after);
  extent.release(static_cast<std::size_t>(at - extent.base) / kGranule, rounded(bytes) / kGranule);
  const auto number = static_cast<std::size_t>(&extent - extents_.data());
  for (std::size_t i = 0; i < kClasses && least_of(i) <= extent.longest; ++i) {
    first_candidate_[i] = std::min(first_candidate_[i], number);
  }
  if (extent.free == kGranules) drop_empty();
}

void HugeHeap::drop_empty() {
  const auto empty = [](const Extent& extent) { return extent.free == kGranules; };
  bool spare = !std::ranges::all_of(extents_, empty);
  std::erase_if(extents_, [&](const Extent& extent) {
    if (!empty(extent) || std::exchange(spare, false)) return false;
    ::munmap(extent.base, kExtent);
    return true;
  });
  first_candidate_ = {};
}

IndexMemory::~IndexMemory() {
  retired_.drain([this](const Retired& retired) { free_block(retired.block, retired.bytes); });
}

void* IndexMemory::allocate(std::size_t bytes) {
  void* block = nullptr;
  if (bytes_ >= kSmallIndex && bytes <= kMostHuge) block = huge_.allocate(bytes);
  if (block == nullptr) block = allocate_small(bytes);
  bytes_ += held(block, bytes);
  return block;
}

void* IndexMemory::allocate_small(std::size_t bytes) {
  void* const given = std::malloc(bytes + 2 * kBefore);
  if (given == nullptr) throw std::bad_alloc();
  const auto begin = reinterpret_cast<std::uintptr_t>(given);
  std::uintptr_t address = (begin + kBefore) / kAlignment * kAlignment;
  if (address % HugeHeap::kGranule == 0) address += kAlignment;
  std::byte* const block = static_cast<std::byte*>(given) + (address - begin);
  std::memcpy(block - sizeof given, static_cast<const void*>(&given), sizeof given);
  std::memset(block, 0, bytes);
  return block;
}

std::size_t IndexMemory::held(const void* block, std::size_t bytes) {
  return of_huge_heap(block) ? HugeHeap::rounded(bytes) : bytes + 2 * kBefore;
}

void IndexMemory::free_block(void* block, std::size_t bytes) {
  if (of_huge_heap(block)) return huge_.release(block, bytes);
  void* given = nullptr;
  std::memcpy(static_cast<void*>(&given), static_cast<std::byte*>(block) - sizeof given, sizeof given);
  std::free(given);
}

void IndexMemory::release(void* block, std::size_t bytes) {
  bytes_ -= held(block, bytes);
  free_block(block, bytes);
}

void IndexMemory::retire(void* block, std::size_t bytes) {
  if (!epochs_.has_readers()) return release(block, bytes);
  retired_.add({.block = block, .bytes = bytes});
  retired_bytes_ += held(block, bytes);
  count(retired_.kBytes);
}

void IndexMemory::reclaim() {
  retired_.reclaim([this](const Retired& retired) {
    retired_bytes_ -= held(retired.block, retired.bytes);
    count(-retired_.kBytes);
    release(retired.block, retired.bytes);
  });
}

}  // namespace kvist::kv_index

#include "kvist/kv_index/index_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace kvist::kv_index {
namespace {

// Aligned by hand: glibc's aligned allocation splits and merges free blocks each time, which costs more than filling
// them. Before each block of malloc's lies what it gave.
constexpr std::size_t kBefore = IndexMemory::kAlignment;

// An index of fewer bytes is not worth a huge page.
constexpr std::size_t kSmallIndex = std::size_t{2} << 20;
// Larger blocks would leave holes in extents.
constexpr std::size_t kMostHuge = HugeHeap::kExtent / 4;

/// By its address a block tells where it came from.
bool of_huge_heap(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block) % HugeHeap::kGranule == 0;
}

}  // namespace

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

#include "kvist/routing/index_memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace kvist::routing {
namespace {

// Aligned by hand: glibc's aligned allocation splits and merges free blocks each time, which costs more than filling
// them. Before each block lies what malloc gave.
constexpr std::size_t kBefore = IndexMemory::kAlignment;

}  // namespace

IndexMemory::~IndexMemory() {
  for (const Retired& retired : retired_) free_block(retired.block);
}

void* IndexMemory::allocate(std::size_t bytes) {
  void* const given = std::malloc(bytes + kBefore);
  if (given == nullptr) throw std::bad_alloc();
  const auto address = (reinterpret_cast<std::uintptr_t>(given) + kBefore) / kAlignment * kAlignment;
  auto* const block = reinterpret_cast<std::byte*>(address);
  std::memcpy(block - sizeof given, &given, sizeof given);
  std::memset(block, 0, bytes);
  bytes_ += bytes + kBefore;
  return block;
}

void IndexMemory::free_block(void* block) {
  void* given = nullptr;
  std::memcpy(&given, static_cast<std::byte*>(block) - sizeof given, sizeof given);
  std::free(given);
}

void IndexMemory::release(void* block, std::size_t bytes) {
  free_block(block);
  bytes_ -= bytes + kBefore;
}

void IndexMemory::retire(void* block, std::size_t bytes) {
  if (!epochs_.has_readers()) return release(block, bytes);
  retired_.push_back({epochs_.current(), block, bytes});
  retired_bytes_ += bytes + kBefore;
  bytes_ += sizeof(Retired);
}

void IndexMemory::reclaim() {
  while (!retired_.empty() && epochs_.passed(retired_.front().epoch)) {
    const Retired retired = retired_.front();
    retired_.pop_front();
    retired_bytes_ -= retired.bytes + kBefore;
    bytes_ -= sizeof(Retired);
    release(retired.block, retired.bytes);
  }
}

}  // namespace kvist::routing

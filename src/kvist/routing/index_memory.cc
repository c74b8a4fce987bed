#include "kvist/routing/index_memory.h"

#include <cstring>
#include <new>

namespace kvist::routing {

IndexMemory::~IndexMemory() {
  for (const Retired& retired : retired_) ::operator delete(retired.block, std::align_val_t{kAlignment});
}

void* IndexMemory::allocate(std::size_t bytes) {
  void* const block = ::operator new(bytes, std::align_val_t{kAlignment});
  std::memset(block, 0, bytes);
  bytes_ += bytes;
  return block;
}

void IndexMemory::release(void* block, std::size_t bytes) {
  ::operator delete(block, std::align_val_t{kAlignment});
  bytes_ -= bytes;
}

void IndexMemory::retire(void* block, std::size_t bytes) {
  if (!epochs_.has_readers()) return release(block, bytes);
  retired_.push_back({epochs_.current(), block, bytes});
  retired_bytes_ += bytes;
  bytes_ += sizeof(Retired);
}

void IndexMemory::reclaim() {
  while (!retired_.empty() && epochs_.passed(retired_.front().epoch)) {
    const Retired retired = retired_.front();
    retired_.pop_front();
    retired_bytes_ -= retired.bytes;
    bytes_ -= sizeof(Retired);
    release(retired.block, retired.bytes);
  }
}

}  // namespace kvist::routing

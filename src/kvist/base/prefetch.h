// Memory that is read soon, asked for before. Where thousands of states are visited in turn, none is in the processor's
// caches, and a visit takes as long as the chain of pointers that leads to what it reads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvist {

inline constexpr std::size_t kCacheLineBytes = 64;

inline void prefetch_bytes(const void* begin, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(begin);
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % kCacheLineBytes;
  for (std::size_t at = 0; at < bytes + before; at += kCacheLineBytes) __builtin_prefetch(first - before + at);
}

/// The object itself, and nothing that it points to.
template <class Object>
void prefetch_object(const Object& object) {
  prefetch_bytes(&object, sizeof(Object));
}

}  // namespace kvist

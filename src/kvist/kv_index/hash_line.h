// A cache line of a hash table: five 64-bit hashes with 32-bit values.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kvist/kv_index/slot_marks.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace kvist::kv_index {

/// Slots of a SlotSegment in 64 bytes; zero while fresh. Threads: one writes; others may call match_shared(), value()
/// and marks().passed().
class alignas(64) HashLine {
 public:
  static constexpr std::uint32_t kSlots = 5;
  using Hash = std::uint64_t;

  /// The bits that tell where in a segment an entry belongs.
  [[nodiscard]] static std::uint32_t place_bits(Hash hash) { return static_cast<std::uint32_t>(hash >> 32); }

  /// The slots with a hash as bits of a number. The writer's.
  [[nodiscard, gnu::always_inline]] std::uint32_t match(std::uint64_t hash) const {
#ifdef __SSE2__
    // SSE2 compares 32 bits at most: a hash is equal where both of its halves are. Nobody else writes.
    const __m128i pattern = _mm_set1_epi64x(static_cast<long long>(hash));
    const auto* const pairs = reinterpret_cast<const __m128i*>(hashes_.data());
    const __m128 first = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_load_si128(pairs), pattern));
    const __m128 second = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_load_si128(pairs + 1), pattern));
    const __m128 low = _mm_shuffle_ps(first, second, _MM_SHUFFLE(2, 0, 2, 0));
    const __m128 high = _mm_shuffle_ps(first, second, _MM_SHUFFLE(3, 1, 3, 1));
    const auto four = static_cast<std::uint32_t>(_mm_movemask_ps(_mm_and_ps(low, high)));
    return four | (this->hash(4) == hash ? 1U << 4 : 0U);
#else
    return match_shared(hash);
#endif
  }
  /// The same by a reader: what value() says then was put with the hash or later.
  [[nodiscard]] std::uint32_t match_shared(std::uint64_t hash) const {
    std::uint32_t equal = 0;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      equal |= (hashes_[slot].load(std::memory_order_acquire) == hash ? 1U : 0U) << slot;
    }
    return equal;
  }
  [[nodiscard]] std::uint64_t hash(std::uint32_t slot) const { return hashes_[slot].load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t value(std::uint32_t slot) const { return values_[slot].load(std::memory_order_acquire); }
  [[nodiscard]] const SlotMarks<kSlots>& marks() const { return marks_; }
  [[nodiscard]] SlotMarks<kSlots>& marks() { return marks_; }

  void put(std::uint32_t slot, Hash hash, std::uint32_t value) {
    write(slot, hash, value);
    marks_.add(slot);
  }
  /// Without its mark.
  void write(std::uint32_t slot, Hash hash, std::uint32_t value) {
    set_value(slot, value);
    hashes_[slot].store(hash, std::memory_order_release);
  }
  void set_value(std::uint32_t slot, std::uint32_t value) { values_[slot].store(value, std::memory_order_release); }
  void erase(std::uint32_t slot) {
    hashes_[slot].store(0, std::memory_order_release);
    marks_.remove(slot);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kSlots> hashes_;
  std::array<std::atomic<std::uint32_t>, kSlots> values_;
  SlotMarks<kSlots> marks_;
};
static_assert(sizeof(HashLine) == 64);

}  // namespace kvist::kv_index

// A cache line of the table of first blocks: seven 32-bit hashes with 32-bit values.
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

/// Slots of a SlotSegment in 64 bytes; zero while fresh. Half of a key is enough where the other half need not be
/// told: what is found is a candidate, which the key in its block confirms. Threads: one writes; others may call
/// match_shared(), value() and marks().passed().
class alignas(64) HeadLine {
 public:
  static constexpr std::uint32_t kSlots = 7;
  using Hash = std::uint32_t;

  /// Not 0.
  [[nodiscard]] static Hash hash_of(std::uint64_t key) {
    const auto bits = static_cast<std::uint32_t>(key ^ (key >> 32));
    return bits + (bits == 0 ? 1 : 0);
  }
  /// The bits that tell where in a segment an entry belongs.
  [[nodiscard]] static std::uint32_t place_bits(Hash hash) { return hash; }

  /// The slots with a hash as bits of a number. The writer's.
  [[nodiscard, gnu::always_inline]] std::uint32_t match(Hash hash) const {
#ifdef __SSE2__
    // The eighth 64 bits are the marks, which may look like anything.
    const __m128i pattern = _mm_set1_epi32(static_cast<int>(hash));
    const auto* const pairs = reinterpret_cast<const __m128*>(this);
    const __m128i first = _mm_castps_si128(_mm_shuffle_ps(pairs[0], pairs[1], _MM_SHUFFLE(3, 1, 3, 1)));
    const __m128i second = _mm_castps_si128(_mm_shuffle_ps(pairs[2], pairs[3], _MM_SHUFFLE(3, 1, 3, 1)));
    const auto four = static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(first, pattern))));
    const auto rest = static_cast<std::uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(second, pattern))));
    return (four | rest << 4) & SlotMarks<kSlots>::kAll;
#else
    return match_shared(hash);
#endif
  }
  /// The same by a reader.
  [[nodiscard]] std::uint32_t match_shared(Hash hash) const {
    std::uint32_t equal = 0;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) equal |= (this->hash(slot) == hash ? 1U : 0U) << slot;
    return equal;
  }
  [[nodiscard]] Hash hash(std::uint32_t slot) const {
    return static_cast<Hash>(entries_[slot].load(std::memory_order_relaxed) >> 32);
  }
  [[nodiscard]] std::uint32_t value(std::uint32_t slot) const {
    return static_cast<std::uint32_t>(entries_[slot].load(std::memory_order_acquire));
  }
  [[nodiscard]] const SlotMarks<kSlots>& marks() const { return marks_; }
  [[nodiscard]] SlotMarks<kSlots>& marks() { return marks_; }

  void put(std::uint32_t slot, Hash hash, std::uint32_t value) {
    write(slot, hash, value);
    marks_.add(slot);
  }
  /// Without its mark.
  void write(std::uint32_t slot, Hash hash, std::uint32_t value) {
    entries_[slot].store(std::uint64_t{hash} << 32 | value, std::memory_order_release);
  }
  void erase(std::uint32_t slot) {
    entries_[slot].store(0, std::memory_order_relaxed);
    marks_.remove(slot);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kSlots> entries_;  // hash in the upper half, value in the lower
  SlotMarks<kSlots> marks_;
};
static_assert(sizeof(HeadLine) == 64);

}  // namespace kvist::kv_index

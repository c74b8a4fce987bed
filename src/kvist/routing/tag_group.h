// Sixteen tags of hash table slots, compared at once.
#pragma once

#include <atomic>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace kvist::routing {

/// What the two words of a group's tags held at one moment each. A tag is seven bits of a byte, 0 for a slot without an
/// entry; the eighth bits of the first word are a count of their own. Slots are given as bits of a 16-bit number.
/// Threads: any, of words that one thread changes.
class TagGroup {
 public:
  using Word = std::atomic<std::uint64_t>;
  static constexpr std::uint64_t kOnes = 0x0101'0101'0101'0101ULL;
  static constexpr std::uint64_t kTags = 0x7f * kOnes;
  static constexpr std::uint64_t kCount = 0x80 * kOnes;
  static constexpr std::uint32_t kSlots = 16;
  static constexpr std::uint32_t kAll = 0xffff;

  explicit TagGroup(const Word* words)
      : first_(words[0].load(std::memory_order_acquire)), second_(words[1].load(std::memory_order_acquire)) {}

  /// Both as they are.
  struct Words {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    friend bool operator==(const Words&, const Words&) = default;
  };
  [[nodiscard]] Words words() const { return {.first = first_, .second = second_}; }
  [[nodiscard]] bool counts() const { return (first_ & kCount) != 0; }

#ifdef __SSE2__
  [[nodiscard]] std::uint32_t equal(std::uint64_t tag) const {
    const std::uint64_t pattern = tag * kOnes;
    return zeros(_mm_xor_si128(tags(), pair(pattern, pattern)));
  }
  [[nodiscard]] std::uint32_t empty() const { return zeros(tags()); }

 private:
  [[nodiscard]] static __m128i pair(std::uint64_t low, std::uint64_t high) {
    return _mm_set_epi64x(static_cast<long long>(high), static_cast<long long>(low));
  }
  [[nodiscard]] __m128i tags() const { return _mm_and_si128(pair(first_, second_), pair(kTags, kTags)); }
  [[nodiscard]] static std::uint32_t zeros(__m128i bytes) {
    return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128())));
  }
#else
  [[nodiscard]] std::uint32_t equal(std::uint64_t tag) const {
    const std::uint64_t pattern = tag * kOnes;
    return zeros((first_ ^ pattern) & kTags) | zeros((second_ ^ pattern) & kTags) << 8;
  }
  [[nodiscard]] std::uint32_t empty() const { return zeros(first_ & kTags) | zeros(second_ & kTags) << 8; }

 private:
  // Bytes of seven bits that are zero: the sum reaches the eighth bit of all others. The product brings these bits
  // together.
  [[nodiscard]] static std::uint32_t zeros(std::uint64_t bytes) {
    const std::uint64_t found = (~(bytes + kTags) & kCount) >> 7;
    return static_cast<std::uint32_t>(found * 0x0102'0408'1020'4080ULL >> 56);
  }
#endif

  std::uint64_t first_;
  std::uint64_t second_;
};

}  // namespace kvist::routing

// The parts of the index's hash tables: cache lines of entries, and segments of such lines.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace kvist::kv_index {

/// Which slots of one line have an entry, and how many entries overflowed past the line because it was full. All zero
/// in fresh memory. Threads: one writes; others may call passed().
template <std::uint32_t kSlots>
class SlotMarks {
 public:
  static constexpr std::uint32_t kAll = (1U << kSlots) - 1;

  /// The slots with an entry, and those without, one bit each.
  [[nodiscard]] std::uint32_t live() const { return bits_.load(std::memory_order_relaxed) & kAll; }
  [[nodiscard]] std::uint32_t free() const { return ~bits_.load(std::memory_order_relaxed) & kAll; }
  [[nodiscard]] std::uint32_t passed() const { return bits_.load(std::memory_order_acquire) / kOnePassed; }
  /// Whether a search or a change may have to go on to the next line: an entry did, or no slot is free.
  [[nodiscard]] bool leads_on() const { return bits_.load(std::memory_order_relaxed) >= kAll; }

  void add(std::uint32_t slot) {
    bits_.store(bits_.load(std::memory_order_relaxed) | 1U << slot, std::memory_order_relaxed);
  }
  /// Requires: no slot has an entry.
  void add_first(std::uint32_t slots) {
    bits_.store(bits_.load(std::memory_order_relaxed) | ((1U << slots) - 1), std::memory_order_relaxed);
  }
  void remove(std::uint32_t slot) {
    bits_.store(bits_.load(std::memory_order_relaxed) & ~(1U << slot), std::memory_order_relaxed);
  }
  void count_passed(int by) {
    bits_.store(bits_.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(by) * kOnePassed,
                std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t kOnePassed = 1U << kSlots;

  std::atomic<std::uint32_t> bits_;  // a bit per slot, then how many passed
};

/// A line of the tables of names: five 64-bit hashes with values in 64 bytes. All zero in fresh memory.
/// Threads: one writes; others may call match_shared(), value() and marks().passed().
class alignas(64) HashLine {
 public:
  static constexpr std::uint32_t kSlots = 5;
  using Hash = std::uint64_t;

  /// The bits of a hash that choose its line in a segment.
  [[nodiscard]] static std::uint32_t place_bits(Hash hash) { return static_cast<std::uint32_t>(hash >> 32); }

  /// The slots with a hash, one bit each. Threads: the writer's.
  [[nodiscard, gnu::always_inline]] std::uint32_t match(std::uint64_t hash) const {
#ifdef __SSE2__
    // SSE2 compares 32 bits at most: a hash is equal where both of its halves are. The plain loads are safe because
    // only this thread writes.
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
  /// As match(), for readers. Ensures: value() returns the value that was put with this hash, or a later one.
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
  /// Writes an entry without marking its slot.
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

/// A line of the table of first blocks: seven 32-bit hashes with values in 64 bytes. All zero in fresh memory. 32 bits
/// of a key are enough, because what is found is a candidate only, which the key in its block confirms. Threads: one
/// writes; others may call match_shared(), value() and marks().passed().
class alignas(64) HeadLine {
 public:
  static constexpr std::uint32_t kSlots = 7;
  using Hash = std::uint32_t;

  /// 32 bits of a key; never 0, which marks a free slot.
  [[nodiscard]] static Hash hash_of(std::uint64_t key) {
    const auto bits = static_cast<std::uint32_t>(key ^ (key >> 32));
    return bits + (bits == 0 ? 1 : 0);
  }
  /// The bits of a hash that choose its line in a segment.
  [[nodiscard]] static std::uint32_t place_bits(Hash hash) { return hash; }

  /// The slots with a hash, one bit each. Threads: the writer's.
  [[nodiscard, gnu::always_inline]] std::uint32_t match(Hash hash) const {
#ifdef __SSE2__
    // The last 64 bits are the marks, which may equal the pattern by accident.
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
  /// As match(), for readers.
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
  /// Writes an entry without marking its slot.
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

/// Open addressing by cache lines: a search nearly always reads one line, and so has one cache miss. An entry whose
/// line is full goes to the next line with a free slot. Each line counts the entries that went past it, and a search
/// ends at a line that none has passed. Entries never move.
///
/// This is a view of memory that SegmentedSlots owns. Line: HashLine or HeadLine.
/// Threads: the writer's; readers may use find_shared().
template <class Line>
struct SlotSegment {
  using Hash = typename Line::Hash;

  Line* lines = nullptr;
  std::uint32_t count = 0;  // of lines

  /// The place of an entry; no line if there is none.
  struct Place {
    Line* line = nullptr;
    std::uint32_t slot = 0;
  };
  /// Accepts any entry with the hash.
  struct Any {
    bool operator()(std::uint32_t) const { return true; }
  };

  [[nodiscard]] static std::size_t bytes(std::uint32_t lines) { return lines * sizeof(Line); }
  /// The line where an entry with that hash belongs. Ascending hashes belong to ascending lines.
  [[nodiscard]] Line* home(Hash hash) const { return lines + ((std::uint64_t{Line::place_bits(hash)} * count) >> 32); }
  /// Prefetches the line behind one that is in the cache already, if a search or a change that begins there may go on
  /// to it. Without a branch, because one in six would be mispredicted.
  static void prefetch_next(const Line& line) { __builtin_prefetch(&line + (line.marks().leads_on() ? 1 : 0)); }
  template <class AnyLine>
  [[nodiscard]] AnyLine* next(AnyLine* line) const {
    return line + 1 == lines + count ? lines : line + 1;
  }

  /// The entry with this hash for whose value accept(value) is true; no line if there is none. Requires: the segment
  /// has lines.
  template <class Accept = Any>
  [[nodiscard]] Place find(Hash hash, Accept accept = {}) const {
    Line* const first = home(hash);
    Line* line = first;
    do {
      const std::uint32_t found = accepted(*line, line->match(hash), accept);
      if (found != 0) return {line, slot_of(found)};
      if (line->marks().passed() == 0) break;
      line = next(line);
    } while (line != first);
    return {};
  }
  /// As find(), for readers. Returns the entry's value; 0 if there is none.
  template <class Accept = Any>
  [[nodiscard]] std::uint32_t find_shared(Hash hash, Accept accept = {}) const {
    const Line* const first = home(hash);
    const Line* line = first;
    do {
      for (std::uint32_t found = line->match_shared(hash); found != 0; found &= found - 1) {
        const std::uint32_t value = line->value(slot_of(found));
        if (accept(value)) return value;
      }
      if (line->marks().passed() == 0) break;
      line = next(line);
    } while (line != first);
    return 0;
  }
  /// Removes from the slots `found` of a line those before the first whose value is accepted.
  template <class Accept>
  [[nodiscard, gnu::always_inline]] static std::uint32_t accepted(const Line& line, std::uint32_t found,
                                                                  Accept accept) {
    while (found != 0 && !accept(line.value(slot_of(found)))) found &= found - 1;
    return found;
  }
  /// The first free slot from the line on where the hash belongs. Requires: a slot is free.
  [[nodiscard]] Place place_for(Hash hash) const {
    Line* line = home(hash);
    for (;; line = next(line)) {
      if (const std::uint32_t free = line->marks().free(); free != 0) return {line, slot_of(free)};
    }
  }
  /// Adds `by` to the count of passed entries in each line from where the hash belongs up to `line`, where its entry
  /// is.
  void count_passed(const Line* line, Hash hash, int by) const {
    for (Line* passed = home(hash); passed != line; passed = next(passed)) passed->marks().count_passed(by);
  }

  /// Calls visit(hash, value) for each entry.
  template <class Visit>
  [[gnu::always_inline]] void for_each(Visit visit) const {
    for (const Line* line = lines; line != lines + count; ++line) {
      for (std::uint32_t live = line->marks().live(); live != 0; live &= live - 1) {
        visit(line->hash(slot_of(live)), line->value(slot_of(live)));
      }
    }
  }

  /// The lowest of some slots.
  [[nodiscard]] static std::uint32_t slot_of(std::uint32_t slots) {
    return static_cast<std::uint32_t>(std::countr_zero(slots));
  }
};

/// Fills a fresh segment with copies of entries. Requires: no reader sees the segment yet. The slots of a line are
/// taken in order and none is freed, so their number tells where the next entry goes.
template <class Line>
class SegmentCopy {
 public:
  using Hash = typename Line::Hash;

  explicit SegmentCopy(SlotSegment<Line> segment) : segment_(segment), taken_(segment.count) {}

  [[gnu::always_inline]] void add(Hash hash, std::uint32_t value) {
    const auto home = static_cast<std::size_t>(segment_.home(hash) - segment_.lines);
    ++live_;
    if (taken_[home] == Line::kSlots) [[unlikely]]
      return add_beyond(hash, value, home);
    segment_.lines[home].write(taken_[home]++, hash, value);
  }
  /// Marks the slots that were filled. Requires: no add() follows.
  void finish() {
    for (std::uint32_t line = 0; line < segment_.count; ++line) segment_.lines[line].marks().add_first(taken_[line]);
  }
  [[nodiscard]] SlotSegment<Line> segment() const { return segment_; }
  [[nodiscard]] std::uint32_t live() const { return live_; }
  /// How many entries are not in the line where they belong.
  [[nodiscard]] std::uint32_t displaced() const { return displaced_; }

 private:
  [[gnu::noinline]] void add_beyond(Hash hash, std::uint32_t value, std::size_t home) {
    ++displaced_;
    std::size_t line = home;
    while (taken_[line] == Line::kSlots) line = line + 1 == taken_.size() ? 0 : line + 1;
    segment_.lines[line].write(taken_[line]++, hash, value);
    segment_.count_passed(segment_.lines + line, hash, 1);
  }

  SlotSegment<Line> segment_;
  std::vector<std::uint32_t> taken_;  // slots, by line; no bytes, because these could alias the lines
  std::uint32_t live_ = 0;
  std::uint32_t displaced_ = 0;
};

}  // namespace kvist::kv_index

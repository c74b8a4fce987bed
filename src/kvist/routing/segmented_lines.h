// The common ground of the index's hash tables: cache lines in segments that grow and shrink one by one.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/routing/index_memory.h"

namespace kvist::routing {

/// Spreads ids of any kind, hashes or numbers counted up, over all 64 bits.
[[nodiscard]] inline std::uint64_t spread(std::uint64_t id) {
  id ^= id >> 32;
  id *= 0x9E37'79B9'7F4A'7C15ULL;  // 2^64 / golden ratio
  return id ^ (id >> 29);
}

/// Open addressing in cache lines of four entries. Lines lie in segments of some hundred entries; each segment has its
/// own size, in steps of an eighth of an octave, so that the load stays between 17/32 and 3/4 while the table grows
/// and shrinks, and never more than two segments are copied at once: there is no doubling of all. The directory of
/// segments grows by linear hashing (Litwin, 1980): one segment at a time is split, in order; entries of the directory
/// that have no segment of their own yet share that of their lower half, so a search needs the directory alone.
///
/// A `Line` is zero while fresh and tells per slot: used(s) (holds an entry, or held one that no search may take for
/// the end of its path), live(s), id(s), and put(s, from, t) copies an entry into a fresh slot. A line with an unused
/// slot ends every search that comes by. clear(s) makes a slot unused.
///
/// kMostPerSegment: entries per segment in the mean before one is split. Small segments are copied in no time and waste
/// nothing on small tables; of large ones the directory stays in the cache.
/// kShared: readers search while the writer writes. They may read what directory() and segment() give until the end of
/// their epoch. Threads: everything else is the writer's.
template <class Line, bool kShared, std::size_t kMostPerSegment>
class SegmentedLines {
 public:
  static_assert(sizeof(Line) == IndexMemory::kAlignment);
  static constexpr std::uint32_t kSlots = 4;

  struct Segment {
    Line* lines = nullptr;
    std::uint32_t count = 0;  // of lines

    [[nodiscard]] std::uint32_t home(std::uint64_t hash) const {
      return static_cast<std::uint32_t>(((hash >> 32) * count) >> 32);
    }
    [[nodiscard]] std::uint32_t next(std::uint32_t line) const { return line + 1 == count ? 0 : line + 1; }
  };

  /// The slots of a line of which test(slot) is true, as bits: four comparisons at once cost less than four guesses of
  /// the branch predictor.
  template <class Test>
  [[nodiscard]] static std::uint32_t slots_where(Test test) {
    return static_cast<std::uint32_t>(test(0)) | static_cast<std::uint32_t>(test(1)) << 1 |
           static_cast<std::uint32_t>(test(2)) << 2 | static_cast<std::uint32_t>(test(3)) << 3;
  }

  explicit SegmentedLines(IndexMemory& memory) : memory_(&memory) {}
  SegmentedLines(const SegmentedLines&) = delete;
  SegmentedLines& operator=(const SegmentedLines&) = delete;
  ~SegmentedLines() { clear(); }

  /// Entries.
  [[nodiscard]] std::size_t size() const { return live_; }
  [[nodiscard]] std::uint32_t segments() const { return segments_; }

  /// Where entries with this hash are; without lines while the table is empty.
  [[nodiscard]] Segment segment(std::uint64_t hash) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    if (directory == nullptr) return {};
    return unpack(directory->words()[hash & directory->mask].load(std::memory_order_acquire));
  }
  /// By its number, below segments().
  [[nodiscard]] Segment at(std::uint32_t number) const { return unpack(word(number)); }

  /// The line where a change begins is fetched, and the one behind it: every fourth line is full, and a change that
  /// goes on there waits for a whole dependent access, while two fetched side by side cost little more than one.
  void prefetch(std::uint64_t hash) const {
    const Segment found = segment(hash);
    if (found.lines == nullptr) return;
    const Line* const line = found.lines + found.home(hash);
    __builtin_prefetch(line);
    __builtin_prefetch(line + 1);
  }

  /// Where the writer changes something.
  struct Spot {
    std::uint32_t number = 0;  // of the segment
    Segment segment;
  };
  /// Requires that there is a segment.
  [[nodiscard]] Spot spot(std::uint64_t hash) {
    const std::uint32_t number = number_of(hash);
    return {.number = number, .segment = at(number)};
  }
  /// The same, in which a slot may be taken: the table may move.
  [[nodiscard]] Spot spot_with_room(std::uint64_t hash) {
    if (segments_ == 0) begin();
    const Spot found = spot(hash);
    const Tally& tally = tallies()[found.number];
    if (tally.used + 1 <= most_used(found.segment.count)) return found;
    resize(found.number, lines_for(tally.live + 1));
    return {.number = found.number, .segment = at(found.number)};
  }
  /// An entry was put into the segment with this number, into a fresh slot or into one that was used before. The table
  /// may move.
  void added(std::uint32_t number, bool fresh_slot) {
    Tally& tally = tallies()[number];
    ++tally.live;
    if (fresh_slot) ++tally.used;
    ++live_;
    if (live_ > kMostPerSegment * segments_) split_next();
  }
  /// An entry was taken out there, and so many slots are fresh again. The table may move unless `keep_shape`.
  void removed(const Spot& spot, std::uint32_t fresh_slots, bool keep_shape = false) {
    Tally& tally = tallies()[spot.number];
    --tally.live;
    tally.used -= fresh_slots;
    --live_;
    if (!keep_shape) shrink(spot.number);
  }
  /// Empties a slot. Entries that had to go on because the line was full come back, so that no search has to pass a
  /// grave. Not while readers search.
  static void close_gap(Segment segment, std::uint32_t line, std::uint32_t slot) {
    const bool was_full = full(segment.lines[line]);
    segment.lines[line].clear(slot);
    if (was_full) fill_gap(segment, line, slot);
  }
  /// Gives all segments the size of their entries, after removals that kept the shape.
  void compact() {
    for (std::uint32_t number = segments_; number-- > 0;) {
      if (number < segments_) shrink(number, /*tight=*/true);
    }
  }

  /// No entries and no memory.
  void clear() {
    for (std::uint32_t number = 0; number < segments_; ++number) discard(at(number));
    if (Directory* const directory = directory_.exchange(nullptr)) discard(directory);
    segments_ = 0;
    live_ = 0;
  }

  /// What one change may allocate at most, beside what it gives back.
  [[nodiscard]] std::size_t growth_bytes() const {
    const Directory* const directory = directory_.load(std::memory_order_relaxed);
    // Two halves of the largest segment, or that segment a step larger.
    return (most_lines_ + most_lines_ / 2 + 2) * sizeof(Line) +
           2 * directory_bytes(directory ? directory->mask + 1 : 1);
  }

 private:
  static constexpr std::size_t kLeastPerSegment = kMostPerSegment * 5 / 12;

  struct Tally {
    std::uint32_t live = 0;
    std::uint32_t used = 0;
  };
  // Followed by mask + 1 words and, from the next cache line on, as many tallies.
  struct Directory {
    std::uint64_t mask = 0;

    using Word = std::atomic<std::uint64_t>;
    [[nodiscard]] const Word* words() const { return reinterpret_cast<const Word*>(this + 1); }
    [[nodiscard]] Word* words() { return reinterpret_cast<Word*>(this + 1); }
  };

  [[nodiscard]] static std::size_t words_bytes(std::uint64_t entries) {
    const std::size_t bytes = sizeof(Directory) + entries * sizeof(typename Directory::Word);
    return (bytes + IndexMemory::kAlignment - 1) / IndexMemory::kAlignment * IndexMemory::kAlignment;
  }
  [[nodiscard]] static std::size_t directory_bytes(std::uint64_t entries) {
    return words_bytes(entries) + entries * sizeof(Tally);
  }
  [[nodiscard]] static std::size_t segment_bytes(Segment segment) { return segment.count * sizeof(Line); }

  // Lines are aligned to 64 bytes and addresses have 48 bits: 22 bits are left for the number of lines.
  static constexpr std::uint64_t kCountBits = 22;
  [[nodiscard]] static std::uint64_t pack(Segment segment) {
    return (reinterpret_cast<std::uint64_t>(segment.lines) << (kCountBits - 6)) | segment.count;
  }
  [[nodiscard]] static Segment unpack(std::uint64_t word) {
    return {.lines = reinterpret_cast<Line*>((word >> kCountBits) << 6),
            .count = static_cast<std::uint32_t>(word & ((1U << kCountBits) - 1))};
  }

  // Three quarters of the slots may be used: then a search rarely goes beyond its second line.
  [[nodiscard]] static std::uint32_t most_used(std::uint32_t lines) { return lines * kSlots * 3 / 4; }
  // The least step in which `entries` leave a fifth of what may be used.
  [[nodiscard]] static std::uint32_t lines_for(std::uint32_t entries) {
    const std::uint64_t slots = (std::uint64_t{entries} * 5 * 4 + 4 * 3 - 1) / (4 * 3);
    const auto lines = static_cast<std::uint32_t>((slots + kSlots - 1) / kSlots);
    const std::uint32_t step = std::bit_floor(lines) / 8;
    if (step == 0) return lines == 0 ? 1 : lines;
    return (lines + step - 1) / step * step;
  }

  [[nodiscard]] Directory& directory() { return *directory_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t word(std::uint32_t number) const {
    return directory_.load(std::memory_order_relaxed)->words()[number].load(std::memory_order_relaxed);
  }
  [[nodiscard]] Tally* tallies() { return tallies_of(&directory()); }
  [[nodiscard]] static Tally* tallies_of(Directory* directory) {
    return reinterpret_cast<Tally*>(reinterpret_cast<std::byte*>(directory) + words_bytes(directory->mask + 1));
  }
  // Entries of the directory from segments_ on have no segment of their own yet.
  [[nodiscard]] std::uint32_t number_of(std::uint64_t hash) {
    const std::uint64_t mask = directory().mask;
    const auto entry = static_cast<std::uint32_t>(hash & mask);
    return entry < segments_ ? entry : entry - static_cast<std::uint32_t>((mask + 1) / 2);
  }

  void begin() {
    Directory* const made = make_directory(1);
    made->words()[0].store(pack(make_segment(1)), std::memory_order_relaxed);
    directory_.store(made, std::memory_order_release);
    segments_ = 1;
  }
  [[nodiscard]] Directory* make_directory(std::uint64_t entries) {
    auto* const made = new (memory_->allocate(directory_bytes(entries))) Directory{entries - 1};
    return made;
  }
  [[nodiscard]] Segment make_segment(std::uint32_t lines) {
    KVIST_CHECK(lines < 1U << kCountBits, "a segment has at most four million lines");
    most_lines_ = std::max(most_lines_, lines);
    return {.lines = static_cast<Line*>(memory_->allocate(lines * sizeof(Line))), .count = lines};
  }
  void discard(Segment segment) { discard(segment.lines, segment_bytes(segment)); }
  void discard(Directory* directory) { discard(directory, directory_bytes(directory->mask + 1)); }
  void discard(void* block, std::size_t bytes) {
    if constexpr (kShared) {
      memory_->retire(block, bytes);
    } else {
      memory_->release(block, bytes);
    }
  }

  [[nodiscard]] static bool full(const Line& line) {
    return slots_where([&](std::uint32_t s) { return line.used(s); }) == (1U << kSlots) - 1;
  }
  // A gap in a line that was full: most lines are not, and close_gap() is short for them.
  [[gnu::noinline]] static void fill_gap(Segment segment, std::uint32_t line, std::uint32_t slot) {
    for (;;) {
      // The first entry behind whose path goes through here, if any before the end of all paths.
      std::uint32_t passing = 0;
      std::uint32_t from = line;
      bool ends = false;
      for (std::uint32_t distance = 1; passing == 0; ++distance) {
        if (ends) return;
        from = segment.next(from);
        const Line& behind = segment.lines[from];
        passing = slots_where([&](std::uint32_t s) {
          const std::uint32_t home = segment.home(spread(behind.id(s)));
          const std::uint32_t travelled = from - home + (from >= home ? 0 : segment.count);
          return behind.live(s) && travelled >= distance;
        });
        ends = !full(behind);
      }
      const auto s = static_cast<std::uint32_t>(std::countr_zero(passing));
      segment.lines[line].put(slot, segment.lines[from], s);
      segment.lines[from].clear(s);
      if (ends) return;
      line = from;
      slot = s;
    }
  }
  static void place(Segment to, std::uint64_t hash, const Line& from, std::uint32_t slot) {
    std::uint32_t line = to.home(hash);
    while (to.lines[line].used(kSlots - 1)) line = to.next(line);  // fresh lines are filled from the first slot on
    std::uint32_t s = 0;
    while (to.lines[line].used(s)) ++s;
    to.lines[line].put(s, from, slot);
  }
  /// Calls visit(line, slot, hash) for each live entry.
  template <class Visit>
  static void for_each_live(Segment segment, Visit visit) {
    for (std::uint32_t i = 0; i < segment.count; ++i) {
      const Line& line = segment.lines[i];
      for (std::uint32_t s = 0; s < kSlots; ++s) {
        if (line.live(s)) visit(line, s, spread(line.id(s)));
      }
    }
  }

  void publish(std::uint32_t number, Segment segment) {
    Directory& directory = this->directory();
    directory.words()[number].store(pack(segment), std::memory_order_release);
    const std::uint64_t half = (directory.mask + 1) / 2;
    if (number < half && number + half >= segments_) {
      directory.words()[number + half].store(pack(segment), std::memory_order_release);
    }
  }

  void resize(std::uint32_t number, std::uint32_t lines) {
    const Segment old = at(number);
    const Segment made = make_segment(lines);
    for_each_live(old, [&](const Line& line, std::uint32_t s, std::uint64_t hash) { place(made, hash, line, s); });
    tallies()[number].used = tallies()[number].live;
    publish(number, made);
    discard(old);
  }

  // Becoming smaller needs memory for a moment: where there is none, it waits for another removal.
  void shrink(std::uint32_t number, bool tight = false) {
    if (segments_ > 1 && live_ < kLeastPerSegment * segments_ && memory_->fits(growth_bytes())) merge_last();
    if (number >= segments_) return;
    const std::uint32_t lines = at(number).count;
    const std::uint32_t live = tallies()[number].live;
    if (!tight && live * 32 >= lines * kSlots * 17) return;
    const std::uint32_t fitting = lines_for(live);
    if (fitting < lines && memory_->fits(growth_bytes())) resize(number, fitting);
  }

  void split_next() {
    if (segments_ == directory().mask + 1) resize_directory(2 * (directory().mask + 1));
    const std::uint64_t half = (directory().mask + 1) / 2;
    const auto low = static_cast<std::uint32_t>(segments_ - half);
    const std::uint32_t high = segments_;
    const Segment old = at(low);
    std::uint32_t counts[2] = {0, 0};
    for_each_live(old, [&](const Line&, std::uint32_t, std::uint64_t hash) { ++counts[(hash & half) != 0 ? 1 : 0]; });
    const Segment made[2] = {make_segment(lines_for(counts[0])), make_segment(lines_for(counts[1]))};
    for_each_live(old, [&](const Line& line, std::uint32_t s, std::uint64_t hash) {
      place(made[(hash & half) != 0 ? 1 : 0], hash, line, s);
    });
    tallies()[low] = {counts[0], counts[0]};
    tallies()[high] = {counts[1], counts[1]};
    ++segments_;
    directory().words()[high].store(pack(made[1]), std::memory_order_release);
    directory().words()[low].store(pack(made[0]), std::memory_order_release);
    discard(old);
  }

  void merge_last() {
    const std::uint64_t half = (directory().mask + 1) / 2;
    const std::uint32_t high = segments_ - 1;
    const auto low = static_cast<std::uint32_t>(high - half);
    const Segment old[2] = {at(low), at(high)};
    const std::uint32_t live = tallies()[low].live + tallies()[high].live;
    const Segment made = make_segment(lines_for(live));
    for (const Segment& part : old) {
      for_each_live(part, [&](const Line& line, std::uint32_t s, std::uint64_t hash) { place(made, hash, line, s); });
    }
    tallies()[low] = {live, live};
    --segments_;
    publish(low, made);
    for (const Segment& part : old) discard(part);
    if (segments_ == half) resize_directory(half);
  }

  void resize_directory(std::uint64_t entries) {
    Directory* const old = &directory();
    Directory* const made = make_directory(entries);
    for (std::uint64_t i = 0; i < entries; ++i) {
      made->words()[i].store(old->words()[i & old->mask].load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    for (std::uint32_t i = 0; i < segments_; ++i) tallies_of(made)[i] = tallies_of(old)[i];
    directory_.store(made, std::memory_order_release);
    discard(old);
  }

  IndexMemory* memory_;
  std::atomic<Directory*> directory_ = nullptr;
  std::uint32_t segments_ = 0;
  std::uint32_t most_lines_ = 0;  // that a segment ever had
  std::size_t live_ = 0;
};

}  // namespace kvist::routing

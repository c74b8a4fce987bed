// What the index's hash tables have in common: segments that grow and shrink one by one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "kvist/base/check.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/slot_segment.h"

namespace kvist::kv_index {

/// A segment (SlotSegment) holds some hundred entries and has a size of its own, so the load stays between 0.3 and 0.74
/// while the table grows and shrinks, and never more than two segments are copied at once: the table is never doubled
/// as a whole. A segment in which too many entries are displaced is rebuilt. The directory of segments grows by linear
/// hashing (Litwin, 1980): segments are split one at a time, in order. A directory entry that has no segment of its own
/// yet refers to the one of its lower half, so a search needs no other table.
///
/// The lowest bits of a hash choose the segment, the upper 32 the line.
///
/// While a block takes little memory in the mean (IndexMemory::averages_below()), a new segment has slots for twice its
/// entries. Otherwise it is nearly as small as it may be, and half-empty segments are made smaller (tighten_next()).
///
/// Line: HashLine or HeadLine.
/// kMostPerSegment: entries per segment in the mean before one is split. Small segments are copied quickly and waste
/// little on small tables; large ones keep the directory so small that it stays in the cache.
/// kShared: readers search while the writer writes. They may use segment() and SlotSegment::find_shared() until the end
/// of their epoch. Threads: everything else is the writer's.
template <class Line, bool kShared, std::uint32_t kMostPerSegment>
class SegmentedSlots {
 public:
  using Segment = SlotSegment<Line>;
  using Hash = typename Line::Hash;

 private:
  /// An entry of the directory. Where several refer to one segment, only the first has valid counts.
  struct Owner {
    std::atomic<std::uint64_t> segment = 0;
    std::uint32_t spare = 0;      // how many more entries fit before the segment is rebuilt
    std::uint32_t displaced = 0;  // entries that are not in the line where they belong
  };
  struct Directory;

 public:
  /// The place of an entry. Valid until a change replaces the segment.
  struct Place {
    Line* line = nullptr;  // none: no entry
    std::uint32_t slot = 0;
    bool displaced = false;  // not in the line where it belongs
    Owner* owner = nullptr;
  };
  /// A search or change whose memory was prefetched; the writer makes it some changes later.
  struct Lookup {
    Hash hash = 0;
    Line* line = nullptr;
    Owner* owner = nullptr;
    std::uint32_t shape = 0;  // of the table at the prefetch; 0: not prefetched
    std::uint32_t slot = 0;   // where in the line find_and_note() found the entry
  };

  /// Prefetches the lines of many look-ups in a row. Valid until the next change of the table.
  class Prefetcher {
   public:
    explicit Prefetcher(const SegmentedSlots& slots) : shape_(slots.segments_ != 0 ? slots.shape_ : 0) {
      if (shape_ == 0) return;
      Directory& directory = slots.directory();
      owners_ = directory.owners();
      mask_ = directory.mask;
      segments_ = slots.segments_;
    }
    /// Fills in the look-up of a hash and prefetches its line.
    [[gnu::always_inline]] void prefetch(Hash hash, Lookup& lookup) const {
      lookup.hash = hash;
      lookup.shape = shape_;
      if (shape_ == 0) [[unlikely]]
        return;
      lookup.owner = owners_ + entry(hash, mask_, segments_);
      lookup.line = segment_of(*lookup.owner).home(hash);
      __builtin_prefetch(lookup.line);
    }

   private:
    std::uint32_t shape_;
    std::uint32_t segments_ = 0;
    std::uint64_t mask_ = 0;
    Owner* owners_ = nullptr;
  };

  explicit SegmentedSlots(IndexMemory& memory) : memory_(&memory) { measure_growth(1); }
  SegmentedSlots(const SegmentedSlots&) = delete;
  SegmentedSlots& operator=(const SegmentedSlots&) = delete;
  ~SegmentedSlots() { clear(); }

  /// The number of entries.
  [[nodiscard]] std::size_t size() const { return live_; }
  [[nodiscard]] std::uint32_t segments() const { return segments_; }

  /// The segment for a hash; without lines while the table is empty.
  [[nodiscard]] Segment segment(Hash hash) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    if (directory == nullptr) [[unlikely]]
      return {};
    return unpack(directory->owners()[hash & directory->mask].segment.load(std::memory_order_acquire));
  }
  /// The memory that every search reads first.
  [[nodiscard]] std::span<const std::byte> directory_memory() const {
    const Directory* const directory = directory_.load(std::memory_order_relaxed);
    if (directory == nullptr) return {};
    return {reinterpret_cast<const std::byte*>(directory), directory_bytes(segments_)};
  }
  /// The segment of a number below segments().
  [[nodiscard]] Segment at(std::uint32_t number) const {
    return unpack(directory_.load(std::memory_order_relaxed)->owners()[number].segment.load(std::memory_order_relaxed));
  }

  /// See NameTable::prefetch_next().
  static void prefetch_next(const Lookup& lookup) { Segment::prefetch_next(*lookup.line); }
  [[nodiscard]] static Lookup not_fetched(Hash hash) {
    Lookup lookup;
    lookup.hash = hash;
    return lookup;
  }

  [[nodiscard, gnu::always_inline]] Place find(const Lookup& lookup) const {
    if (lookup.shape != shape_) [[unlikely]]
      return find(lookup.hash);
    const std::uint32_t found = lookup.line->match(lookup.hash);
    if (found != 0) [[likely]]
      return {.line = lookup.line, .slot = Segment::slot_of(found), .owner = lookup.owner};
    if (lookup.line->marks().passed() == 0) return {};
    Line* const next = segment_of(*lookup.owner).next(lookup.line);
    const std::uint32_t there = next->match(lookup.hash);
    if (there != 0) [[likely]]
      return {.line = next, .slot = Segment::slot_of(there), .displaced = true, .owner = lookup.owner};
    return next->marks().passed() == 0 ? Place{} : find(lookup.hash);
  }
  /// The entry with this hash for whose value accept(value) is true.
  template <class Accept = typename Segment::Any>
  [[nodiscard, gnu::noinline]] Place find(Hash hash, Accept accept = {}) const {
    if (segments_ == 0) return {};
    Owner& owner = this->owner(hash);
    const Segment segment = segment_of(owner);
    const typename Segment::Place at = segment.find(hash, accept);
    return {.line = at.line, .slot = at.slot, .displaced = at.line != segment.home(hash), .owner = &owner};
  }
  /// As find(), and notes the slot for knows().
  [[nodiscard, gnu::always_inline]] Place find_and_note(Lookup& lookup) const {
    const Place place = find(lookup);
    lookup.slot = place.slot;
    return place;
  }
  /// Whether the entry is still where the look-up found it.
  [[nodiscard]] bool knows(const Lookup& lookup) const {
    return lookup.shape == shape_ && lookup.line->hash(lookup.slot) == lookup.hash;
  }
  [[nodiscard]] static Place known(const Lookup& lookup) {
    return {.line = lookup.line, .slot = lookup.slot, .owner = lookup.owner};
  }
  /// Puts an entry. Requires: find() does not find it. Segments may be replaced.
  [[gnu::always_inline]] void put(const Lookup& lookup, std::uint32_t value) {
    const std::uint32_t free = lookup.shape == shape_ ? lookup.line->marks().free() : 0;
    if (free != 0 && lookup.owner->spare != 0) [[likely]] {
      --lookup.owner->spare;
      lookup.line->put(Segment::slot_of(free), lookup.hash, value);
    } else {
      put_elsewhere(lookup.hash, value);
    }
    count_put();
  }
  void put(Hash hash, std::uint32_t value) {
    if (segments_ == 0) begin();
    Owner& owner = this->owner(hash);
    put({.hash = hash, .line = segment_of(owner).home(hash), .owner = &owner, .shape = shape_}, value);
  }
  /// Accounts for an entry that was removed. Segments may be replaced unless `keep_shape`.
  [[gnu::always_inline]] void removed(Place place, Hash hash, bool keep_shape = false) {
    ++place.owner->spare;
    if (place.displaced) [[unlikely]]
      came_back(place, hash);
    if (--live_ >= merge_below_ && !sparse(*place.owner)) [[likely]]
      return;
    if (!keep_shape) shrink(number_of(*place.owner));
  }
  /// Makes all segments as small as their entries allow, after removals that kept the shape.
  void compact() {
    for (std::uint32_t number = segments_; number-- > 0;) {
      if (number < segments_) shrink(number, /*tight=*/true);
    }
  }

  /// Makes one segment smaller if it has many more slots than its entries need. Each call looks at the next segment.
  void tighten_next() {
    if (segments_ == 0) return;
    next_to_tighten_ = next_to_tighten_ + 1 < segments_ ? next_to_tighten_ + 1 : 0;
    const Owner& owner = directory().owners()[next_to_tighten_];
    const std::uint32_t least = kLeastLoadWhenTight * Line::kSlots * lines_of(owner);
    if (100 * live(owner) < least) shrink(next_to_tighten_, /*tight=*/true);
  }

  /// Erases all entries and frees their memory.
  void clear() {
    for (std::uint32_t number = 0; number < segments_; ++number) discard(at(number));
    if (Directory* const directory = directory_.exchange(nullptr)) discard(directory);
    live_ = 0;
    ++shape_;
    set_segments(0);
    measure_growth(1);
  }

  /// How much one change may allocate at most, not counting what it frees.
  [[nodiscard]] std::size_t growth_bytes() const { return growth_bytes_; }

 private:
  static constexpr std::uint32_t kLeastPerSegment = kMostPerSegment * 5 / 12;
  // A segment is rebuilt when more than so many entries, plus a third of all, are displaced.
  static constexpr std::uint32_t kFewDisplaced = 16;

  // Followed by mask + 1 owners, none of which lies in two cache lines.
  struct alignas(sizeof(Owner)) Directory {
    std::uint64_t mask = 0;

    [[nodiscard]] const Owner* owners() const { return reinterpret_cast<const Owner*>(this + 1); }
    [[nodiscard]] Owner* owners() { return reinterpret_cast<Owner*>(this + 1); }
  };
  [[nodiscard]] static std::size_t directory_bytes(std::uint64_t n) { return sizeof(Directory) + n * sizeof(Owner); }
  // Segments are aligned to 64 bytes and addresses have 48 bits: 22 bits are left for the number of lines.
  static constexpr std::uint64_t kCountBits = 22;
  [[nodiscard]] static std::uint64_t pack(Segment segment) {
    return (reinterpret_cast<std::uint64_t>(segment.lines) << (kCountBits - 6)) | segment.count;
  }
  [[nodiscard]] static Segment unpack(std::uint64_t word) {
    return {.lines = reinterpret_cast<Line*>((word >> kCountBits) << 6), .count = count_of(word)};
  }
  [[nodiscard]] static std::uint32_t count_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(word & ((1U << kCountBits) - 1));
  }
  [[nodiscard]] static Segment segment_of(const Owner& owner) {
    return unpack(owner.segment.load(std::memory_order_relaxed));
  }
  [[nodiscard]] static std::uint32_t lines_of(const Owner& owner) {
    return count_of(owner.segment.load(std::memory_order_relaxed));
  }

  // Loads in per cent. At the highest one entry in five is displaced; below the lowest a segment is made smaller.
  static constexpr std::uint32_t kMostLoad = 74;
  static constexpr std::uint32_t kLeastLoad = 30;
  // The load of a new segment: it can then double its entries before it is split, so each entry is copied once.
  static constexpr std::uint32_t kLoadForGrowth = 35;
  // The load of a segment that was made smaller, far from both limits.
  static constexpr std::uint32_t kLoadForRest = 51;
  // The same three while memory is short. Each entry is then copied five times while a table grows, instead of once or
  // twice.
  static constexpr std::uint32_t kLeastLoadWhenTight = 58;
  static constexpr std::uint32_t kLoadForGrowthWhenTight = 60;
  static constexpr std::uint32_t kLoadForRestWhenTight = 65;

  [[nodiscard]] static std::uint32_t most_entries(std::uint32_t lines) {
    return (kMostLoad * Line::kSlots * lines + 50) / 100;
  }
  [[nodiscard]] static std::uint32_t live(const Owner& owner) { return most_entries(lines_of(owner)) - owner.spare; }
  [[nodiscard]] static bool sparse(const Owner& owner) {
    return 100 * owner.spare > (kMostLoad - kLeastLoad) * Line::kSlots * lines_of(owner) + 50;
  }
  [[nodiscard]] static std::uint32_t lines_for(std::uint32_t entries, std::uint32_t load) {
    return static_cast<std::uint32_t>(std::uint64_t{entries} * 100 / (load * Line::kSlots)) + 1;
  }
  [[nodiscard]] std::uint32_t load_for_growth() const {
    return memory_->averages_below() ? kLoadForGrowth : kLoadForGrowthWhenTight;
  }
  [[nodiscard]] std::uint32_t lines_for_rest(std::uint32_t entries) const {
    return lines_for(entries, memory_->averages_below() ? kLoadForRest : kLoadForRestWhenTight);
  }

  [[nodiscard]] Directory& directory() const { return *directory_.load(std::memory_order_relaxed); }
  /// The directory entry for a hash. Requires: there is a segment.
  [[nodiscard, gnu::always_inline]] Owner& owner(Hash hash) const {
    Directory& directory = this->directory();
    return directory.owners()[entry(hash, directory.mask, segments_)];
  }
  /// The number of the directory entry for a hash, among those that have a segment of their own. It has no branch,
  /// because that would often be mispredicted.
  [[nodiscard]] static std::uint64_t entry(Hash hash, std::uint64_t mask, std::uint32_t segments) {
    const std::uint64_t entry = hash & mask;
    return entry < segments ? entry : entry & (mask >> 1);
  }
  [[gnu::always_inline]] void count_put() {
    if (++live_ > split_above_) [[unlikely]]
      split_next();
  }
  /// As put(), if the table has changed since the prefetch, or if the segment or the entry's line is full.
  [[gnu::noinline]] void put_elsewhere(Hash hash, std::uint32_t value) {
    if (segments_ == 0) begin();
    while (owner(hash).spare == 0) make_anew(owner(hash));
    Owner& owner = this->owner(hash);
    const Segment segment = segment_of(owner);
    const typename Segment::Place place = segment.place_for(hash);
    place.line->put(place.slot, hash, value);
    --owner.spare;
    if (place.line == segment.home(hash)) return;
    segment.count_passed(place.line, hash, 1);
    ++owner.displaced;
    rebuild_displaced(owner);
  }
  /// Rebuilds a segment that has just got one displaced entry more, if there are too many. If that does not help,
  /// because hashes were chosen to meet in one line, no segment is rebuilt until as many more entries have been
  /// displaced, because the time of a rebuild grows with the square of their number. A limit on that number alone would
  /// not bound the rebuilds, because entries are removed again.
  void rebuild_displaced(Owner& owner) {
    if (rebuild_pause_ > 0) {
      --rebuild_pause_;
      return;
    }
    const std::uint32_t most = kFewDisplaced + live(owner) / 3;
    if (owner.displaced <= most || !memory_->fits(growth_bytes())) return;
    make_anew(owner);
    if (owner.displaced > most / 2) rebuild_pause_ = most;
  }
  /// Rebuilds a segment with free slots and few displaced entries.
  void make_anew(const Owner& owner) { resize(number_of(owner), lines_for(live(owner) + 1, load_for_growth())); }

  [[nodiscard]] std::uint32_t number_of(const Owner& owner) {
    return static_cast<std::uint32_t>(&owner - directory().owners());
  }
  void set_segments(std::uint32_t segments) {
    segments_ = segments;
    split_above_ = kMostPerSegment * segments;
    merge_below_ = segments > 1 ? kLeastPerSegment * segments : 0;
  }

  [[gnu::noinline]] void begin() {
    Directory* const made = make_directory(1);
    made->owners()[0].segment.store(pack(make_segment(1)), std::memory_order_relaxed);
    made->owners()[0].spare = most_entries(1);
    directory_.store(made, std::memory_order_release);
    set_segments(1);
  }
  // Computed when the table changes shape, because every group of changes asks for it.
  void measure_growth(std::uint64_t directory_entries) {
    // Two halves of the largest segment, or that segment a step larger: from kMostLoad to kLoadForGrowth.
    growth_bytes_ = static_cast<std::uint32_t>(Segment::bytes(most_lines_ * kMostLoad / kLoadForGrowth + 4) +
                                               4 * IndexMemory::kAlignment + 2 * directory_bytes(directory_entries));
  }
  [[nodiscard]] Directory* make_directory(std::uint64_t entries) {
    measure_growth(entries);
    auto* const made = new (memory_->allocate(directory_bytes(entries))) Directory{.mask = entries - 1};
    for (std::uint64_t i = 0; i < entries; ++i) new (made->owners() + i) Owner;
    return made;
  }
  [[nodiscard]] Segment make_segment(std::uint32_t lines) {
    KVIST_CHECK(lines < 1U << kCountBits, "a segment has at most four million lines");
    if (lines > most_lines_) {
      const Directory* const directory = directory_.load(std::memory_order_relaxed);
      most_lines_ = lines;
      measure_growth(directory != nullptr ? directory->mask + 1 : 1);
    }
    return {.lines = static_cast<Line*>(memory_->allocate(Segment::bytes(lines))), .count = lines};
  }
  void discard(Segment segment) { discard(segment.lines, Segment::bytes(segment.count)); }
  void discard(Directory* directory) { discard(directory, directory_bytes(directory->mask + 1)); }
  void discard(void* block, std::size_t bytes) {
    if constexpr (kShared) {
      memory_->retire(block, bytes);
    } else {
      memory_->release(block, bytes);
    }
  }

  [[gnu::noinline]] static void came_back(Place place, Hash hash) {
    segment_of(*place.owner).count_passed(place.line, hash, -1);
    --place.owner->displaced;
  }

  using Copy = SegmentCopy<Line>;

  // Directory entries that refer to the same segment get it too.
  void publish(std::uint32_t number, Copy& copy) {
    copy.finish();
    Directory& directory = this->directory();
    Owner& owner = directory.owners()[number];
    ++shape_;
    owner.spare = most_entries(copy.segment().count) - copy.live();
    owner.displaced = copy.displaced();
    owner.segment.store(pack(copy.segment()), std::memory_order_release);
    const std::uint64_t half = (directory.mask + 1) / 2;
    if (number < half && number + half >= segments_) {
      directory.owners()[number + half].segment.store(pack(copy.segment()), std::memory_order_release);
    }
  }

  void resize(std::uint32_t number, std::uint32_t lines) {
    const Segment old = at(number);
    Copy made(make_segment(lines));
    old.for_each([&](Hash hash, std::uint32_t value) { made.add(hash, value); });
    publish(number, made);
    discard(old);
  }

  // Making a segment smaller needs memory for a moment. If there is none, it waits for a later removal.
  [[gnu::noinline]] void shrink(std::uint32_t number, bool tight = false) {
    if (live_ < merge_below_ && memory_->fits(growth_bytes())) merge_last();
    if (number >= segments_) return;
    const Owner& owner = directory().owners()[number];
    if (!tight && !sparse(owner)) return;
    const std::uint32_t fitting = lines_for_rest(live(owner));
    if (fitting < lines_of(owner) && memory_->fits(growth_bytes())) resize(number, fitting);
  }

  [[gnu::noinline]] void split_next() {
    if (segments_ == directory().mask + 1) resize_directory(2 * (directory().mask + 1));
    const std::uint64_t half = (directory().mask + 1) / 2;
    const auto low = static_cast<std::uint32_t>(segments_ - half);
    const std::uint32_t high = segments_;
    const Segment old = at(low);
    const auto side = [half](Hash hash) { return (hash & half) != 0 ? 1 : 0; };
    const std::uint32_t load = load_for_growth();
    std::uint32_t counts[2] = {0, 0};
    if (load == kLoadForGrowth) {
      // About half of the entries each. However they divide, all of them would fit on one side.
      static_assert(kMostLoad > 2 * kLoadForGrowth);
      counts[0] = counts[1] = live(directory().owners()[low]) / 2 + 1;
    } else {
      old.for_each([&](Hash hash, std::uint32_t) { ++counts[side(hash)]; });
    }
    Copy made[2] = {Copy(make_segment(lines_for(counts[0], load))), Copy(make_segment(lines_for(counts[1], load)))};
    old.for_each([&](Hash hash, std::uint32_t value) { made[side(hash)].add(hash, value); });
    set_segments(segments_ + 1);
    publish(high, made[1]);
    publish(low, made[0]);
    discard(old);
  }

  void merge_last() {
    const std::uint64_t half = (directory().mask + 1) / 2;
    const std::uint32_t high = segments_ - 1;
    const auto low = static_cast<std::uint32_t>(high - half);
    const Segment old[2] = {at(low), at(high)};
    const std::uint32_t both = live(directory().owners()[low]) + live(directory().owners()[high]);
    Copy made(make_segment(lines_for_rest(both)));
    for (const Segment& part : old) {
      part.for_each([&](Hash hash, std::uint32_t value) { made.add(hash, value); });
    }
    set_segments(segments_ - 1);
    publish(low, made);
    for (const Segment& part : old) discard(part);
    if (segments_ == half) resize_directory(half);
  }

  void resize_directory(std::uint64_t entries) {
    Directory* const old = &directory();
    Directory* const made = make_directory(entries);
    for (std::uint64_t i = 0; i < entries; ++i) {
      const Owner& from = old->owners()[i & old->mask];
      Owner& to = made->owners()[i];
      to.segment.store(from.segment.load(std::memory_order_relaxed), std::memory_order_relaxed);
      to.spare = from.spare;
      to.displaced = from.displaced;
    }
    directory_.store(made, std::memory_order_release);
    discard(old);
  }

  // Each worker's record has three tables, so counts have 32 bits where that is enough: a block's number has no more.
  IndexMemory* memory_;
  std::atomic<Directory*> directory_ = nullptr;
  std::uint32_t segments_ = 0;
  std::uint32_t most_lines_ = 0;  // that a segment ever had
  std::uint32_t growth_bytes_ = 0;
  std::uint32_t shape_ = 1;  // increases whenever a segment is replaced
  std::uint32_t next_to_tighten_ = 0;
  std::uint32_t split_above_ = 0;  // entries
  std::uint32_t merge_below_ = 0;
  std::uint32_t rebuild_pause_ = 0;  // entries that are displaced before a segment is rebuilt for that reason again
  std::size_t live_ = 0;
};

}  // namespace kvist::kv_index

// The common ground of the index's hash tables: tagged slots in segments that grow and shrink one by one.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "kvist/base/check.h"
#include "kvist/routing/index_memory.h"
#include "kvist/routing/tag_group.h"

namespace kvist::routing {

/// Open addressing in groups of 16 slots. Each slot has a tag of seven bits of its entry's hash; a search compares the
/// 16 tags of a group at once and then looks at entries with the right tag only, nearly always the one that is sought
/// or none. The tags of a segment lie together: 16 times less memory than its entries, so they stay near, and a change
/// fetches one cache line of entries from afar. An entry whose group is full goes on to the next; each group counts the
/// entries that went on past it, and a search ends at a group that none has passed. Entries never move within their
/// segment. Where too many are away from home it is made anew.
///
/// Segments hold some hundred entries; each has its own size, so that the load stays between 35/64 and 25/32 while the
/// table grows and shrinks, and never more than two segments are copied at once: there is no doubling of all. The
/// directory of segments grows by linear hashing (Litwin, 1980): one segment at a time is split, in order; entries of
/// the directory that have no segment of their own yet share that of their lower half, so a search needs the directory
/// alone.
///
/// An `Entry` has 16 bytes, is zero while fresh and tells its hash(). Of a hash the lowest bits are the tag, the next
/// ones choose the segment, the upper half the group.
///
/// kMostPerSegment: entries per segment in the mean before one is split. Small segments are copied in no time and waste
/// nothing on small tables; of large ones the directory stays in the cache.
/// kShared: readers search while the writer writes. They may use segment() and find() and read what they give until the
/// end of their epoch; an entry is complete before its tag appears. Threads: everything else is the writer's.
template <class Entry, bool kShared, std::size_t kMostPerSegment>
class SegmentedSlots {
  using Word = TagGroup::Word;
  static constexpr std::uint32_t kSlots = TagGroup::kSlots;
  static_assert(sizeof(Entry) == 16);

 public:
  struct Segment {
    std::byte* base = nullptr;
    std::uint32_t count = 0;  // of groups

    [[nodiscard]] std::uint32_t home(std::uint64_t hash) const {
      return static_cast<std::uint32_t>(((hash >> 32) * count) >> 32);
    }
    [[nodiscard]] std::uint32_t next(std::uint32_t group) const { return group + 1 == count ? 0 : group + 1; }
    [[nodiscard]] Word* tags(std::uint32_t group) const { return reinterpret_cast<Word*>(base) + 2 * group; }
    [[nodiscard]] Entry* entries(std::uint32_t group) const {
      return reinterpret_cast<Entry*>(base + tag_bytes(count)) + kSlots * group;
    }
  };

  /// Where an entry is, or where there is none.
  struct Place {
    Entry* entry = nullptr;
    std::uint32_t group = 0;
    std::uint32_t slot = 0;
  };

 private:
  /// One per entry of the directory; where several share a segment, the first has its numbers.
  struct Owner {
    Word segment = 0;
    std::uint32_t live = 0;       // entries
    std::uint32_t displaced = 0;  // of them, not in the group where they belong
  };

 public:
  explicit SegmentedSlots(IndexMemory& memory) : memory_(&memory) {}
  SegmentedSlots(const SegmentedSlots&) = delete;
  SegmentedSlots& operator=(const SegmentedSlots&) = delete;
  ~SegmentedSlots() { clear(); }

  /// Entries.
  [[nodiscard]] std::size_t size() const { return live_; }
  [[nodiscard]] std::uint32_t segments() const { return segments_; }

  /// Where entries with this hash are; without groups while the table is empty.
  [[nodiscard]] Segment segment(std::uint64_t hash) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    if (directory == nullptr) [[unlikely]]
      return {};
    return unpack(directory->owners()[bits_of(hash) & directory->mask].segment.load(std::memory_order_acquire));
  }
  /// By its number, below segments().
  [[nodiscard]] Segment at(std::uint32_t number) const {
    return unpack(directory_.load(std::memory_order_relaxed)->owners()[number].segment.load(std::memory_order_relaxed));
  }

  /// The entry with this hash of which same(entry) is true; none where there is none. Requires a segment with groups.
  template <class Same>
  [[nodiscard, gnu::always_inline]] static Place find(const Segment& segment, std::uint64_t hash, Same same) {
    const std::uint64_t sought = tag(hash);
    const std::uint32_t home = segment.home(hash);
    std::uint32_t group = home;
    do {
      const TagGroup tags(segment.tags(group));
      for (std::uint32_t equal = tags.equal(sought); equal != 0; equal &= equal - 1) {
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(equal));
        Entry* const entry = segment.entries(group) + slot;
        if (same(*entry)) [[likely]]
          return {.entry = entry, .group = group, .slot = slot};
      }
      if (!tags.counts()) [[likely]]
        break;
      group = segment.next(group);
    } while (group != home);
    return {};
  }

  /// find(), and where there is none the empty slot that is to be taken: nearly always one look at the tags.
  struct Sought {
    Place place;
    bool found = false;
  };
  template <class Same>
  [[nodiscard, gnu::always_inline]] static Sought find_or_place(const Segment& segment, std::uint64_t hash, Same same) {
    const std::uint32_t home = segment.home(hash);
    const TagGroup tags(segment.tags(home));
    const std::uint32_t empty = tags.empty();
    if (tags.equal(tag(hash)) == 0 && !tags.counts() && empty != 0) [[likely]] {
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(empty));
      return {.place = {.entry = segment.entries(home) + slot, .group = home, .slot = slot}};
    }
    const Place known = find(segment, hash, same);
    if (known.entry != nullptr) return {.place = known, .found = true};
    return {.place = place_for(segment, hash, segment.count, [](const Entry&) { return true; })};
  }

  /// A search comes: its tags are fetched first, and when they are there the entry.
  static void prefetch_tags(const Segment& segment, std::uint64_t hash) {
    __builtin_prefetch(segment.tags(segment.home(hash)));
  }
  /// The entry that a search will look at, or the slot that a new one will get, unless it lies beyond the first group.
  static void prefetch_entry(const Segment& segment, std::uint64_t hash) {
    const std::uint32_t group = segment.home(hash);
    const TagGroup tags(segment.tags(group));
    // With none of both: any line, it costs less than to ask.
    const std::uint32_t slots = tags.equal(tag(hash)) << TagGroup::kSlots;
    const auto slot = static_cast<std::uint32_t>(std::countr_zero(slots != 0 ? slots : tags.empty())) % kSlots;
    __builtin_prefetch(segment.entries(group) + slot);
  }
  /// A search that the writer will make, some changes later.
  struct Ahead {
    std::uint64_t hash = 0;
    Segment segment;
    std::uint32_t shape = 0;  // of the table then
  };
  [[nodiscard]] Ahead prefetch_ahead(std::uint64_t hash) const {
    const Ahead ahead{.hash = hash, .segment = segment(hash), .shape = shape_};
    if (ahead.segment.count != 0) [[likely]]
      prefetch_tags(ahead.segment, hash);
    return ahead;
  }
  void prefetch_entry(const Ahead& ahead) const {
    if (ahead.segment.count != 0 && ahead.shape == shape_) [[likely]]
      prefetch_entry(ahead.segment, ahead.hash);
  }

  /// Where the writer changes something; until the next change.
  struct Spot {
    Owner* owner = nullptr;
    Segment segment;
  };
  /// Requires that there is a segment.
  [[nodiscard, gnu::always_inline]] Spot spot(std::uint64_t hash) {
    Directory& directory = this->directory();
    std::uint64_t entry = bits_of(hash) & directory.mask;
    if (entry >= segments_) entry -= (directory.mask + 1) / 2;  // no segment of its own yet
    Owner& owner = directory.owners()[entry];
    return {.owner = &owner, .segment = unpack(owner.segment.load(std::memory_order_relaxed))};
  }
  /// The same, in which a slot may be taken: the table may move.
  [[nodiscard, gnu::always_inline]] Spot spot_with_room(std::uint64_t hash) {
    if (segments_ == 0) [[unlikely]]
      begin();
    for (;;) {
      const Spot found = spot(hash);
      if (found.owner->live < most_live(found.segment.count)) [[likely]]
        return found;
      make_anew(hash);
    }
  }
  /// Makes a segment anew, so that it has room and all its slots without an entry are fresh.
  [[gnu::noinline]] void make_anew(std::uint64_t hash) {
    const Owner& owner = *spot(hash).owner;
    resize(number_of(owner), groups_for_growth(owner.live + 1));
  }

  /// The first slot of the entry's own group, or of some that follow, that has no entry, and of which usable(entry) is
  /// true.
  template <class Usable>
  [[nodiscard, gnu::always_inline]] static Place place_for(const Segment& segment, std::uint64_t hash,
                                                           std::uint32_t groups, Usable usable) {
    std::uint32_t group = segment.home(hash);
    for (; groups > 0; --groups, group = segment.next(group)) {
      for (std::uint32_t empty = TagGroup(segment.tags(group)).empty(); empty != 0; empty &= empty - 1) {
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(empty));
        Entry* const entry = segment.entries(group) + slot;
        if (usable(*entry)) [[likely]]
          return {.entry = entry, .group = group, .slot = slot};
      }
    }
    return {};
  }
  /// An entry was written there: now it is found. The table may move.
  [[gnu::always_inline]] void added(const Spot& spot, std::uint64_t hash, const Place& place) {
    set_tag(spot.segment, place, tag(hash));
    ++spot.owner->live;
    if (spot.segment.home(hash) != place.group) [[unlikely]]
      went_on(spot, hash, place.group);
    if (++live_ > split_above_) [[unlikely]]
      split_next();
  }
  /// The entry there is not found any more. The table may move unless `keep_shape`.
  [[gnu::always_inline]] void remove(const Spot& spot, std::uint64_t hash, const Place& place,
                                     bool keep_shape = false) {
    set_tag(spot.segment, place, 0);
    --spot.owner->live;
    if (spot.segment.home(hash) != place.group) [[unlikely]]
      came_back(spot, hash, place.group);
    if (--live_ >= merge_below_ && !sparse(*spot.owner, spot.segment)) [[likely]]
      return;
    if (!keep_shape) shrink(number_of(*spot.owner));
  }
  /// Gives all segments the size of their entries, after removals that kept the shape.
  void compact() {
    for (std::uint32_t number = segments_; number-- > 0;) {
      if (number < segments_) shrink(number, /*tight=*/true);
    }
  }

  /// Calls visit(entry) for each entry of a group.
  template <class Visit>
  static void for_each_in_group(const Segment& segment, std::uint32_t group, Visit visit) {
    for (std::uint32_t live = TagGroup(segment.tags(group)).empty() ^ TagGroup::kAll; live != 0; live &= live - 1) {
      visit(segment.entries(group)[std::countr_zero(live)]);
    }
  }
  template <class Visit>
  static void for_each(const Segment& segment, Visit visit) {
    for (std::uint32_t group = 0; group < segment.count; ++group) for_each_in_group(segment, group, visit);
  }

  /// No entries and no memory.
  void clear() {
    for (std::uint32_t number = 0; number < segments_; ++number) discard(at(number));
    if (Directory* const directory = directory_.exchange(nullptr)) discard(directory);
    live_ = 0;
    ++shape_;
    set_segments(0);
  }

  /// What one change may allocate at most, beside what it gives back.
  [[nodiscard]] std::size_t growth_bytes() const {
    const Directory* const directory = directory_.load(std::memory_order_relaxed);
    // Two halves of the largest segment, or that segment a step larger: 25/32 over 7/12 of its groups.
    return segment_bytes(most_groups_ + most_groups_ / 2 + 4) + 4 * IndexMemory::kAlignment +
           2 * directory_bytes(directory ? directory->mask + 1 : 1);
  }

 private:
  static constexpr std::size_t kLeastPerSegment = kMostPerSegment * 5 / 12;
  // Displaced entries that are no reason to do anything about them, beside an eighth of all.
  static constexpr std::uint32_t kFewDisplaced = 16;

  // Followed by mask + 1 owners, none of which lies in two cache lines.
  struct alignas(sizeof(Owner)) Directory {
    std::uint64_t mask = 0;

    [[nodiscard]] const Owner* owners() const { return reinterpret_cast<const Owner*>(this + 1); }
    [[nodiscard]] Owner* owners() { return reinterpret_cast<Owner*>(this + 1); }
  };

  [[nodiscard]] static std::size_t directory_bytes(std::uint64_t n) { return sizeof(Directory) + n * sizeof(Owner); }
  // Entries begin at a cache line.
  [[nodiscard]] static std::size_t tag_bytes(std::uint32_t groups) {
    return (groups + 3) / 4 * std::size_t{IndexMemory::kAlignment};
  }
  [[nodiscard]] static std::size_t segment_bytes(std::uint32_t groups) {
    return tag_bytes(groups) + groups * kSlots * sizeof(Entry);
  }

  static constexpr std::uint32_t kTagBits = 7;
  [[nodiscard]] static std::uint64_t tag(std::uint64_t hash) {
    const std::uint64_t bits = hash & 0x7f;
    return bits + (bits == 0 ? 1 : 0);
  }
  [[nodiscard]] static std::uint64_t bits_of(std::uint64_t hash) { return hash >> kTagBits; }
  static void set_tag(const Segment& segment, const Place& place, std::uint64_t tag) {
    Word& word = segment.tags(place.group)[place.slot >> 3];
    const std::uint32_t shift = (place.slot & 7) * 8;
    word.store((word.load(std::memory_order_relaxed) & ~(std::uint64_t{0x7f} << shift)) | tag << shift,
               std::memory_order_release);
  }
  // Adds to the count of those that passed a group, in the eighth bits of its first word, so that readers see it change
  // at once. Its greatest value stays for good.
  static void change_passed(const Segment& segment, std::uint32_t group, std::uint32_t by) {
    Word& word = segment.tags(group)[0];
    const std::uint64_t tags = word.load(std::memory_order_relaxed);
    std::uint32_t passed = 0;
    for (std::uint32_t i = 0; i < 8; ++i) passed |= static_cast<std::uint32_t>(tags >> (8 * i + 7) & 1) << i;
    if (passed == 0xff) return;
    passed += by;
    std::uint64_t spread_out = 0;
    for (std::uint32_t i = 0; i < 8; ++i) spread_out |= std::uint64_t{passed >> i & 1} << (8 * i + 7);
    word.store((tags & TagGroup::kTags) | spread_out, std::memory_order_release);
  }

  // Segments are aligned to 64 bytes and addresses have 48 bits: 22 bits are left for the number of groups.
  static constexpr std::uint64_t kCountBits = 22;
  [[nodiscard]] static std::uint64_t pack(Segment segment) {
    return (reinterpret_cast<std::uint64_t>(segment.base) << (kCountBits - 6)) | segment.count;
  }
  [[nodiscard]] static Segment unpack(std::uint64_t word) {
    return {.base = reinterpret_cast<std::byte*>((word >> kCountBits) << 6),
            .count = static_cast<std::uint32_t>(word & ((1U << kCountBits) - 1))};
  }

  // Of the slots 25/32 may have an entry: then one in ten is not in its own group.
  [[nodiscard]] static std::uint32_t most_live(std::uint32_t groups) { return groups * 25 / 2; }
  // Below 35/64 a segment is made smaller: a block takes 17 bytes in each of its two tables, 64 bytes must do.
  [[nodiscard]] static bool sparse(const Owner& owner, Segment segment) { return owner.live * 4 < segment.count * 35; }
  // From a load of 7/12 a segment doubles its entries with one further step before it is split.
  [[nodiscard]] static std::uint32_t groups_for_growth(std::uint32_t entries) {
    return std::max(1U, static_cast<std::uint32_t>((std::uint64_t{entries} * 12 + 111) / 112));
  }
  // At 11/16 it is far from both ends.
  [[nodiscard]] static std::uint32_t groups_for_rest(std::uint32_t entries) {
    return std::max(1U, (entries + 10) / 11);
  }

  [[nodiscard]] Directory& directory() { return *directory_.load(std::memory_order_relaxed); }
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
    directory_.store(made, std::memory_order_release);
    set_segments(1);
  }
  [[nodiscard]] Directory* make_directory(std::uint64_t entries) {
    auto* const made = new (memory_->allocate(directory_bytes(entries))) Directory{.mask = entries - 1};
    for (std::uint64_t i = 0; i < entries; ++i) new (made->owners() + i) Owner;
    return made;
  }
  [[nodiscard]] Segment make_segment(std::uint32_t groups) {
    KVIST_CHECK(groups < 1U << kCountBits, "a segment has at most four million groups");
    most_groups_ = std::max(most_groups_, groups);
    return {.base = static_cast<std::byte*>(memory_->allocate(segment_bytes(groups))), .count = groups};
  }
  void discard(Segment segment) { discard(segment.base, segment_bytes(segment.count)); }
  void discard(Directory* directory) { discard(directory, directory_bytes(directory->mask + 1)); }
  void discard(void* block, std::size_t bytes) {
    if constexpr (kShared) {
      memory_->retire(block, bytes);
    } else {
      memory_->release(block, bytes);
    }
  }

  [[gnu::noinline]] void went_on(const Spot& spot, std::uint64_t hash, std::uint32_t group) {
    const Segment segment = spot.segment;
    for (std::uint32_t i = segment.home(hash); i != group; i = segment.next(i)) change_passed(segment, i, 1);
    if (++spot.owner->displaced <= kFewDisplaced + spot.owner->live / 8 || !memory_->fits(growth_bytes())) return;
    resize(number_of(*spot.owner), groups_for_growth(spot.owner->live));
  }
  [[gnu::noinline]] static void came_back(const Spot& spot, std::uint64_t hash, std::uint32_t group) {
    const Segment segment = spot.segment;
    for (std::uint32_t i = segment.home(hash); i != group; i = segment.next(i)) change_passed(segment, i, ~0U);
    --spot.owner->displaced;
  }

  /// A segment that entries are copied into.
  struct Copy {
    Segment segment;
    std::uint32_t live = 0;
    std::uint32_t displaced = 0;
  };
  static void place(Copy& to, const Entry& from) {
    const std::uint64_t hash = from.hash();
    const std::uint32_t home = to.segment.home(hash);
    const Place place = place_for(to.segment, hash, to.segment.count, [](const Entry&) { return true; });
    place.entry->copy(from);
    set_tag(to.segment, place, tag(hash));
    ++to.live;
    if (place.group == home) [[likely]]
      return;
    ++to.displaced;
    for (std::uint32_t i = home; i != place.group; i = to.segment.next(i)) change_passed(to.segment, i, 1);
  }

  // Those who share it see it too.
  void publish(std::uint32_t number, const Copy& copy) {
    Directory& directory = this->directory();
    Owner& owner = directory.owners()[number];
    ++shape_;
    owner.live = copy.live;
    owner.displaced = copy.displaced;
    owner.segment.store(pack(copy.segment), std::memory_order_release);
    const std::uint64_t half = (directory.mask + 1) / 2;
    if (number < half && number + half >= segments_) {
      directory.owners()[number + half].segment.store(pack(copy.segment), std::memory_order_release);
    }
  }

  void resize(std::uint32_t number, std::uint32_t groups) {
    const Segment old = at(number);
    Copy made{.segment = make_segment(groups)};
    for_each(old, [&](const Entry& entry) { place(made, entry); });
    publish(number, made);
    discard(old);
  }

  // Becoming smaller needs memory for a moment: where there is none, it waits for another removal.
  [[gnu::noinline]] void shrink(std::uint32_t number, bool tight = false) {
    if (live_ < merge_below_ && memory_->fits(growth_bytes())) merge_last();
    if (number >= segments_) return;
    const Segment segment = at(number);
    const Owner& owner = directory().owners()[number];
    if (!tight && !sparse(owner, segment)) return;
    const std::uint32_t fitting = groups_for_rest(owner.live);
    if (fitting < segment.count && memory_->fits(growth_bytes())) resize(number, fitting);
  }

  [[gnu::noinline]] void split_next() {
    if (segments_ == directory().mask + 1) resize_directory(2 * (directory().mask + 1));
    const std::uint64_t half = (directory().mask + 1) / 2;
    const auto low = static_cast<std::uint32_t>(segments_ - half);
    const std::uint32_t high = segments_;
    const Segment old = at(low);
    const auto side = [half](std::uint64_t hash) { return (bits_of(hash) & half) != 0 ? 1 : 0; };
    std::uint32_t counts[2] = {0, 0};
    for_each(old, [&](const Entry& entry) { ++counts[side(entry.hash())]; });
    Copy made[2] = {{.segment = make_segment(groups_for_growth(counts[0]))},
                    {.segment = make_segment(groups_for_growth(counts[1]))}};
    for_each(old, [&](const Entry& entry) { place(made[side(entry.hash())], entry); });
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
    const std::uint32_t live = directory().owners()[low].live + directory().owners()[high].live;
    Copy made{.segment = make_segment(groups_for_rest(live))};
    for (const Segment& part : old) for_each(part, [&](const Entry& entry) { place(made, entry); });
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
      to.live = from.live;
      to.displaced = from.displaced;
    }
    directory_.store(made, std::memory_order_release);
    discard(old);
  }

  IndexMemory* memory_;
  std::atomic<Directory*> directory_ = nullptr;
  std::uint32_t segments_ = 0;
  std::uint32_t most_groups_ = 0;  // that a segment ever had
  std::uint32_t shape_ = 1;        // counted on whenever a segment goes
  std::size_t live_ = 0;
  std::size_t split_above_ = 0;  // entries
  std::size_t merge_below_ = 0;
};

}  // namespace kvist::routing

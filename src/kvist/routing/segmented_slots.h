// The common ground of the index's hash tables: segments that grow and shrink one by one.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>

#include "kvist/base/check.h"
#include "kvist/routing/index_memory.h"
#include "kvist/routing/slot_segment.h"
#include "kvist/routing/tag_group.h"

namespace kvist::routing {

/// Segments (SlotSegment) hold some hundred entries; each has its own size, so that the load stays between 35/64 and
/// 25/32 while the table grows and shrinks, and never more than two segments are copied at once: there is no doubling
/// of all. A segment in which too many entries are away from home is made anew. The directory of segments grows by
/// linear hashing (Litwin, 1980): one segment at a time is split, in order; entries of the directory that have no
/// segment of their own yet share that of their lower half, so a search needs the directory alone.
///
/// Of a hash the lowest bits are the tag, the next ones choose the segment, the upper half the group.
///
/// kMostPerSegment: entries per segment in the mean before one is split. Small segments are copied in no time and waste
/// nothing on small tables; of large ones the directory stays in the cache.
/// kShared: readers search while the writer writes. They may use segment() and SlotSegment::find() and read what they
/// give until the end of their epoch. Threads: everything else is the writer's.
template <class Entry, bool kShared, std::size_t kMostPerSegment>
class SegmentedSlots {
  using Word = TagGroup::Word;
  static constexpr std::uint32_t kSlots = TagGroup::kSlots;

 public:
  using Segment = SlotSegment<Entry>;
  using Place = typename Segment::Place;

 private:
  /// One per entry of the directory; where several share a segment, the first has its numbers.
  struct Owner {
    Word segment = 0;
    std::uint32_t live = 0;       // entries
    std::uint32_t displaced = 0;  // of them, not in the group where they belong
  };

 public:
  /// Where the writer changes something; until the next change that moves the segment.
  struct Spot {
    Owner* owner = nullptr;
    Segment segment;
  };
  /// A search or a change that the writer will make, some changes later: where it will look, and what its group's tags
  /// said when they were there. As long as they say the same, the change needs no other search.
  struct Ahead {
    std::uint64_t hash = 0;
    Spot spot;
    std::uint32_t shape = 0;  // of the table then; 0 is none
    std::uint32_t group = 0;
    std::uint32_t slot = kSlots;  // with the right tag, or else empty; kSlots: neither, or more groups to look at
    bool tagged = false;
    TagGroup::Words tags = {};
  };

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

  /// The entry of which same(entry) is true; none where there is none. Requires a segment.
  template <class Same>
  [[nodiscard, gnu::always_inline]] Place find(const Ahead& ahead, const Spot& spot, Same same) const {
    if (ahead.tagged && stands(ahead)) [[likely]] {
      const Place place = place_of(ahead);
      if (same(*place.entry)) [[likely]]
        return place;
    }
    return spot.segment.find(ahead.hash, same);
  }

  /// find(), and where there is none the empty slot that is to be taken: nearly always one look at the tags.
  struct Sought {
    Place place;
    bool found = false;
  };
  template <class Same>
  [[nodiscard, gnu::always_inline]] Sought find_or_place(const Ahead& ahead, const Spot& spot, Same same) const {
    if (stands(ahead)) [[likely]] {
      const Place place = place_of(ahead);
      if (!ahead.tagged) [[likely]]
        return {.place = place, .found = false};
      if (same(*place.entry)) return {.place = place, .found = true};
    }
    return find_or_place(spot.segment, ahead.hash, same);
  }
  template <class Same>
  [[nodiscard, gnu::noinline]] static Sought find_or_place(const Segment& segment, std::uint64_t hash, Same same) {
    const Place known = segment.find(hash, same);
    if (known.entry != nullptr) return {.place = known, .found = true};
    return {.place = segment.place_for(hash, segment.count, [](const Entry&) { return true; })};
  }

  /// A search or a change comes: its tags are fetched first, and when they are there the entry, or the slot that a new
  /// one will get.
  [[gnu::always_inline]] void prefetch_ahead(std::uint64_t hash, Ahead& ahead) {
    ahead.hash = hash;
    ahead.shape = 0;
    ahead.slot = kSlots;
    if (segments_ == 0) [[unlikely]]
      return;
    ahead.spot = spot(hash);
    ahead.shape = shape_;
    ahead.group = ahead.spot.segment.home(hash);
    __builtin_prefetch(ahead.spot.segment.tags(ahead.group));
  }
  [[gnu::always_inline]] void prefetch_entry(Ahead& ahead) const {
    if (ahead.shape != shape_) [[unlikely]]
      return;
    const TagGroup tags(ahead.spot.segment.tags(ahead.group));
    const std::uint32_t equal = tags.equal(Segment::tag(ahead.hash));
    const std::uint32_t seen = equal != 0 ? equal : tags.empty();
    ahead.tagged = equal != 0;
    ahead.tags = tags.words();
    if (seen == 0) [[unlikely]]
      return;
    const auto slot = static_cast<std::uint32_t>(std::countr_zero(seen));
    __builtin_prefetch(ahead.spot.segment.entries(ahead.group) + slot);
    if (equal != 0 || !tags.counts()) ahead.slot = slot;
  }

  /// Requires that there is a segment.
  [[nodiscard, gnu::always_inline]] Spot spot(std::uint64_t hash) {
    Directory& directory = this->directory();
    std::uint64_t entry = bits_of(hash) & directory.mask;
    if (entry >= segments_) entry -= (directory.mask + 1) / 2;  // no segment of its own yet
    Owner& owner = directory.owners()[entry];
    return {.owner = &owner, .segment = unpack(owner.segment.load(std::memory_order_relaxed))};
  }
  [[nodiscard, gnu::always_inline]] Spot spot(const Ahead& ahead) {
    return ahead.shape == shape_ ? ahead.spot : spot(ahead.hash);
  }
  /// The same, in which a slot may be taken: the table may move.
  [[nodiscard, gnu::always_inline]] Spot spot_with_room(const Ahead& ahead) {
    if (segments_ == 0) [[unlikely]]
      begin();
    for (;;) {
      const Spot found = spot(ahead);
      if (found.owner->live < most_live(found.segment.count)) [[likely]]
        return found;
      make_anew(ahead.hash);
    }
  }
  /// Makes a segment anew, so that it has room and all its slots without an entry are fresh.
  [[gnu::noinline]] void make_anew(std::uint64_t hash) {
    const Owner& owner = *spot(hash).owner;
    resize(number_of(owner), groups_for_growth(owner.live + 1));
  }

  /// An entry was written there: now it is found. The table may move.
  [[gnu::always_inline]] void added(const Spot& spot, std::uint64_t hash, const Place& place) {
    spot.segment.set_tag(place, Segment::tag(hash));
    ++spot.owner->live;
    if (spot.segment.home(hash) != place.group) [[unlikely]]
      went_on(spot, hash, place.group);
    if (++live_ > split_above_) [[unlikely]]
      split_next();
  }
  /// The entry there is not found any more. The table may move unless `keep_shape`.
  [[gnu::always_inline]] void remove(const Spot& spot, std::uint64_t hash, const Place& place,
                                     bool keep_shape = false) {
    spot.segment.set_tag(place, 0);
    --spot.owner->live;
    if (spot.segment.home(hash) != place.group) [[unlikely]]
      came_back(spot, hash, place.group);
    if (--live_ >= merge_below_ && !sparse(*spot.owner, spot.segment)) [[likely]]
      return;
    if (!keep_shape) shrink(number_of(*spot.owner));
  }
  /// What an Ahead saw, as long as it holds. free_slot: nobody has the hash, and there is an empty slot where it
  /// belongs and room in the segment; tagged_entry: the entry there with the hash's tag. Null: the change has to
  /// search.
  [[nodiscard, gnu::always_inline]] Entry* free_slot(const Ahead& ahead) const {
    const bool usable = stands(ahead) && !ahead.tagged && ahead.spot.owner->live < most_live(ahead.spot.segment.count);
    return usable ? place_of(ahead).entry : nullptr;
  }
  [[nodiscard, gnu::always_inline]] Entry* tagged_entry(const Ahead& ahead) const {
    return stands(ahead) && ahead.tagged ? place_of(ahead).entry : nullptr;
  }
  /// As added(), for an entry in a free_slot().
  [[gnu::always_inline]] void added(const Ahead& ahead) {
    set_seen_tag(ahead, Segment::tag(ahead.hash));
    ++ahead.spot.owner->live;
    if (++live_ > split_above_) [[unlikely]]
      split_next();
  }
  /// As remove(), of a tagged_entry().
  [[gnu::always_inline]] void remove(const Ahead& ahead) {
    set_seen_tag(ahead, 0);
    --ahead.spot.owner->live;
    if (--live_ >= merge_below_ && !sparse(*ahead.spot.owner, ahead.spot.segment)) [[likely]]
      return;
    shrink(number_of(*ahead.spot.owner));
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
    live_ = 0;
    ++shape_;
    set_segments(0);
  }

  /// What one change may allocate at most, beside what it gives back.
  [[nodiscard]] std::size_t growth_bytes() const {
    const Directory* const directory = directory_.load(std::memory_order_relaxed);
    // Two halves of the largest segment, or that segment a step larger: 25/32 over 7/12 of its groups.
    return Segment::bytes(most_groups_ + most_groups_ / 2 + 4) + 4 * IndexMemory::kAlignment +
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
  [[gnu::always_inline]] static void set_seen_tag(const Ahead& ahead, std::uint64_t tag) {
    const std::uint32_t shift = (ahead.slot & 7) * 8;
    const std::uint64_t seen = ahead.slot < 8 ? ahead.tags.first : ahead.tags.second;
    ahead.spot.segment.tags(ahead.group)[ahead.slot >> 3].store((seen & ~(std::uint64_t{0x7f} << shift)) | tag << shift,
                                                                std::memory_order_release);
  }
  [[nodiscard, gnu::always_inline]] bool stands(const Ahead& ahead) const {
    return ahead.shape == shape_ && ahead.slot != kSlots &&
           TagGroup(ahead.spot.segment.tags(ahead.group)).words() == ahead.tags;
  }
  [[nodiscard, gnu::always_inline]] static Place place_of(const Ahead& ahead) {
    return {.entry = ahead.spot.segment.entries(ahead.group) + ahead.slot, .group = ahead.group, .slot = ahead.slot};
  }

  [[nodiscard]] static std::uint64_t bits_of(std::uint64_t hash) { return hash >> Segment::kTagBits; }
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
    return {.base = static_cast<std::byte*>(memory_->allocate(Segment::bytes(groups))), .count = groups};
  }
  void discard(Segment segment) { discard(segment.base, Segment::bytes(segment.count)); }
  void discard(Directory* directory) { discard(directory, directory_bytes(directory->mask + 1)); }
  void discard(void* block, std::size_t bytes) {
    if constexpr (kShared) {
      memory_->retire(block, bytes);
    } else {
      memory_->release(block, bytes);
    }
  }

  [[gnu::noinline]] void went_on(const Spot& spot, std::uint64_t hash, std::uint32_t group) {
    spot.segment.change_passed_until(group, hash, 1);
    if (++spot.owner->displaced <= kFewDisplaced + spot.owner->live / 8 || !memory_->fits(growth_bytes())) return;
    resize(number_of(*spot.owner), groups_for_growth(spot.owner->live));
  }
  [[gnu::noinline]] static void came_back(const Spot& spot, std::uint64_t hash, std::uint32_t group) {
    spot.segment.change_passed_until(group, hash, ~std::uint64_t{0});
    --spot.owner->displaced;
  }

  using Copy = SegmentCopy<Entry>;

  // Those who share it see it too.
  void publish(std::uint32_t number, const Copy& copy) {
    Directory& directory = this->directory();
    Owner& owner = directory.owners()[number];
    ++shape_;
    owner.live = copy.live();
    owner.displaced = copy.displaced();
    owner.segment.store(pack(copy.segment()), std::memory_order_release);
    const std::uint64_t half = (directory.mask + 1) / 2;
    if (number < half && number + half >= segments_) {
      directory.owners()[number + half].segment.store(pack(copy.segment()), std::memory_order_release);
    }
  }

  void resize(std::uint32_t number, std::uint32_t groups) {
    const Segment old = at(number);
    Copy made(make_segment(groups));
    old.for_each([&](const Entry& entry) { made.add(entry); });
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
    old.for_each([&](const Entry& entry) { ++counts[side(entry.hash())]; });
    Copy made[2] = {Copy(make_segment(groups_for_growth(counts[0]))), Copy(make_segment(groups_for_growth(counts[1])))};
    old.for_each([&](const Entry& entry) { made[side(entry.hash())].add(entry); });
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
    Copy made(make_segment(groups_for_rest(live)));
    for (const Segment& part : old) part.for_each([&](const Entry& entry) { made.add(entry); });
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

// One segment of the index's hash tables: groups of tagged slots.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/routing/index_memory.h"
#include "kvist/routing/tag_group.h"

namespace kvist::routing {

/// Open addressing in groups of 16 slots. Each slot has a tag of seven bits of its entry's hash; a search compares the
/// 16 tags of a group at once and then looks at entries with the right tag only, nearly always the one that is sought
/// or none. The tags lie together: 16 times less memory than the entries, so they stay near, and a change fetches one
/// cache line of entries from afar. An entry whose group is full goes on to the next; each group counts the entries
/// that went on past it, and a search ends at a group that none has passed. Entries never move.
///
/// An `Entry` has 16 bytes, is zero while fresh and tells its hash(), of which the lowest bits are the tag and the
/// upper half chooses the group. A view of memory that its owner allocates. Threads: find() and what it needs for
/// readers beside one writer, if an entry is complete before its tag appears; everything else is the writer's.
template <class Entry>
struct SlotSegment {
  using Word = TagGroup::Word;
  static constexpr std::uint32_t kSlots = TagGroup::kSlots;
  static constexpr std::uint32_t kTagBits = 7;
  static_assert(sizeof(Entry) == 16);

  std::byte* base = nullptr;  // of a cache line
  std::uint32_t count = 0;    // of groups

  /// Where an entry is, or where there is none.
  struct Place {
    Entry* entry = nullptr;
    std::uint32_t group = 0;
    std::uint32_t slot = 0;
  };

  [[nodiscard]] static std::size_t bytes(std::uint32_t groups) {
    return tag_bytes(groups) + groups * kSlots * sizeof(Entry);
  }
  [[nodiscard]] static std::uint64_t tag(std::uint64_t hash) {
    const std::uint64_t bits = hash & 0x7f;
    return bits + (bits == 0 ? 1 : 0);
  }
  /// The group where entries with that hash belong. Hashes in ascending order belong to groups in ascending order.
  [[nodiscard]] std::uint32_t home(std::uint64_t hash) const {
    return static_cast<std::uint32_t>(((hash >> 32) * count) >> 32);
  }
  [[nodiscard]] std::uint32_t next(std::uint32_t group) const { return group + 1 == count ? 0 : group + 1; }
  [[nodiscard]] Word* tags(std::uint32_t group) const { return reinterpret_cast<Word*>(base) + 2 * group; }
  [[nodiscard]] Entry* entries(std::uint32_t group) const {
    return reinterpret_cast<Entry*>(base + tag_bytes(count)) + kSlots * group;
  }

  /// The entry with this hash of which same(entry) is true; none where there is none. Requires groups.
  template <class Same>
  [[nodiscard, gnu::always_inline]] Place find(std::uint64_t hash, Same same) const {
    const std::uint64_t sought = tag(hash);
    const std::uint32_t first = home(hash);
    std::uint32_t group = first;
    do {
      const TagGroup group_tags(tags(group));
      for (std::uint32_t equal = group_tags.equal(sought); equal != 0; equal &= equal - 1) {
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(equal));
        Entry* const entry = entries(group) + slot;
        if (same(*entry)) [[likely]]
          return {.entry = entry, .group = group, .slot = slot};
      }
      if (!group_tags.counts()) [[likely]]
        break;
      group = next(group);
    } while (group != first);
    return {};
  }
  /// The first slot of the entry's own group, or of `groups` in all from there on, that has no entry, and of which
  /// usable(entry) is true.
  template <class Usable>
  [[nodiscard, gnu::always_inline]] Place place_for(std::uint64_t hash, std::uint32_t groups, Usable usable) const {
    std::uint32_t group = home(hash);
    for (; groups > 0; --groups, group = next(group)) {
      for (std::uint32_t empty = TagGroup(tags(group)).empty(); empty != 0; empty &= empty - 1) {
        const auto slot = static_cast<std::uint32_t>(std::countr_zero(empty));
        Entry* const entry = entries(group) + slot;
        if (usable(*entry)) [[likely]]
          return {.entry = entry, .group = group, .slot = slot};
      }
    }
    return {};
  }

  /// A search comes: its tags are fetched.
  void prefetch_tags(std::uint64_t hash) const { __builtin_prefetch(tags(home(hash))); }
  /// They are there: asks for the entry with the right tag, nearly always the one that is sought, and returns it; null
  /// where the first group has none.
  [[nodiscard, gnu::always_inline]] Entry* prefetch_tagged(std::uint64_t hash) const {
    const std::uint32_t group = home(hash);
    const std::uint32_t equal = TagGroup(tags(group)).equal(tag(hash));
    if (equal == 0) [[unlikely]]
      return nullptr;
    Entry* const entry = entries(group) + std::countr_zero(equal);
    __builtin_prefetch(entry);
    return entry;
  }

  /// 0: there is no entry any more.
  void set_tag(const Place& place, std::uint64_t tag) const {
    Word& word = tags(place.group)[place.slot >> 3];
    const std::uint32_t shift = (place.slot & 7) * 8;
    word.store((word.load(std::memory_order_relaxed) & ~(std::uint64_t{0x7f} << shift)) | tag << shift,
               std::memory_order_release);
  }
  /// Adds to the count of those that passed a group, in the eighth bits of its first word, so that readers see it
  /// change at once. Its greatest value stays for good.
  void change_passed(std::uint32_t group, std::uint64_t by) const {
    Word& word = tags(group)[0];
    const std::uint64_t bits = word.load(std::memory_order_relaxed);
    // One product brings the eight bits together, another lays each into its byte, where the sum carries it up.
    std::uint64_t passed = (bits & TagGroup::kCount) / 0x80 * 0x0102'0408'1020'4080ULL >> 56;
    if (passed == 0xff) return;
    passed += by;
    const std::uint64_t spread_out =
        (((passed & 0xff) * TagGroup::kOnes & 0x8040'2010'0804'0201ULL) + TagGroup::kTags) & TagGroup::kCount;
    word.store((bits & TagGroup::kTags) | spread_out, std::memory_order_release);
  }
  /// The same for all groups from the one where an entry belongs to the one where it is.
  void change_passed_until(std::uint32_t group, std::uint64_t hash, std::uint64_t by) const {
    for (std::uint32_t i = home(hash); i != group; i = next(i)) change_passed(i, by);
  }

  /// Calls visit(entry) for each entry of a group.
  template <class Visit>
  void for_each_in_group(std::uint32_t group, Visit visit) const {
    for (std::uint32_t live = TagGroup(tags(group)).empty() ^ TagGroup::kAll; live != 0; live &= live - 1) {
      visit(entries(group)[std::countr_zero(live)]);
    }
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint32_t group = 0; group < count; ++group) for_each_in_group(group, visit);
  }

 private:
  // Entries begin at a cache line.
  [[nodiscard]] static std::size_t tag_bytes(std::uint32_t groups) {
    return (groups + 3) / 4 * std::size_t{IndexMemory::kAlignment};
  }
};

/// A fresh segment that entries are copied into, while nobody else sees it. A group's slots are taken in order and none
/// is given free, so a count of them says where the next entry goes.
template <class Entry>
class SegmentCopy {
  using Segment = SlotSegment<Entry>;

 public:
  explicit SegmentCopy(Segment segment) : segment_(segment), taken_(segment.count) {}

  [[gnu::always_inline]] void add(const Entry& entry) {
    const std::uint32_t home = segment_.home(entry.hash());
    ++live_;
    if (taken_[home] == Segment::kSlots) [[unlikely]]
      return add_beyond(entry, home);
    fill(entry, home);
  }
  [[nodiscard]] Segment segment() const { return segment_; }
  [[nodiscard]] std::uint32_t live() const { return live_; }
  /// Of them, not in the group where they belong.
  [[nodiscard]] std::uint32_t displaced() const { return displaced_; }

 private:
  [[gnu::always_inline]] void fill(const Entry& entry, std::uint32_t group) {
    static_assert(std::endian::native == std::endian::little, "a tag is that byte of its word");
    const std::uint32_t slot = taken_[group]++;
    segment_.entries(group)[slot].copy(entry);
    reinterpret_cast<std::uint8_t*>(segment_.tags(group))[slot] = static_cast<std::uint8_t>(Segment::tag(entry.hash()));
  }
  [[gnu::noinline]] void add_beyond(const Entry& entry, std::uint32_t home) {
    ++displaced_;
    std::uint32_t group = home;
    for (; taken_[group] == Segment::kSlots; group = segment_.next(group)) segment_.change_passed(group, 1);
    fill(entry, group);
  }

  Segment segment_;
  std::vector<std::uint8_t> taken_;  // slots, by group
  std::uint32_t live_ = 0;
  std::uint32_t displaced_ = 0;
};

}  // namespace kvist::routing

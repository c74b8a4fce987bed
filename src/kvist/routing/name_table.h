// What a worker's names for blocks mean: the writer's side of the KV index.
#pragma once

#include <cstdint>

#include "kvist/routing/segmented_slots.h"

namespace kvist::routing {

/// Any 64-bit name, or number, as NameTable knows it: spread over all bits, no two alike.
class NameDigest {
 public:
  NameDigest() = default;  ///< of some name
  explicit NameDigest(std::uint64_t name) {
    name ^= name >> 32;
    name *= 0x9E37'79B9'7F4A'7C15ULL;  // 2^64 / golden ratio
    bits_ = name ^ (name >> 29);
  }
  [[nodiscard]] std::uint64_t bits() const { return bits_; }

 private:
  friend class NameTable;
  std::uint64_t bits_ = 0;
};

/// 64-bit numbers by name, 17 bytes per entry before the load factor (35/64 to 25/32). The value 0 means: none.
/// Threads: the writer's.
class NameTable {
 private:
  struct Entry {
    std::uint64_t digest;
    std::uint64_t value;

    [[nodiscard]] std::uint64_t hash() const { return digest; }
    void copy(const Entry& from) { *this = from; }
  };
  using Slots = SegmentedSlots<Entry, false, 1024>;

 public:
  explicit NameTable(IndexMemory& memory) : slots_(memory) {}

  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] bool empty() const { return slots_.size() == 0; }

  /// A change or a search comes: see SegmentedSlots. Each of find(), insert() and erase() takes one instead of a name.
  using Ahead = Slots::Ahead;
  void prefetch_ahead(NameDigest name, Ahead& ahead) { slots_.prefetch_ahead(name.bits(), ahead); }
  void prefetch_entry(Ahead& ahead) const { slots_.prefetch_entry(ahead); }
  [[nodiscard]] static Ahead not_fetched(NameDigest name) { return not_fetched(name.bits()); }
  /// The same name in another table.
  [[nodiscard]] static Ahead not_fetched(const Ahead& name) { return not_fetched(name.hash); }

  /// 0 where there is none.
  [[nodiscard]] std::uint64_t find(NameDigest name) const;
  [[nodiscard]] std::uint64_t find(const Ahead& name);
  /// The value that the name had before, which it keeps; 0 where there was none and `value` (not 0) was put.
  std::uint64_t insert(NameDigest name, std::uint64_t value) { return insert(not_fetched(name), value); }
  std::uint64_t insert(const Ahead& name, std::uint64_t value);
  /// Changes the value of a name that is there, to another than 0.
  void set(NameDigest name, std::uint64_t value) { set(not_fetched(name), value); }
  void set(const Ahead& name, std::uint64_t value);
  /// The value that the name had; 0 where there was none. `keep_shape`: see for_each_in().
  std::uint64_t erase(NameDigest name, bool keep_shape = false) { return erase(not_fetched(name), keep_shape); }
  std::uint64_t erase(const Ahead& name, bool keep_shape = false);
  /// No entries and no memory.
  void clear() { slots_.clear(); }

  /// Entries lie in so many parts.
  [[nodiscard]] std::uint32_t parts() const { return slots_.segments(); }
  /// Calls visit(name, value) for each entry of a part. Entries erased with keep_shape between two parts leave the
  /// parts as they are; compact() then gives the memory back.
  template <class Visit>
  void for_each_in(std::uint32_t part, Visit visit) const {
    slots_.at(part).for_each([&](const Entry& entry) {
      NameDigest name;
      name.bits_ = entry.digest;
      visit(name, entry.value);
    });
  }
  void compact() { slots_.compact(); }

  /// What one insertion may allocate at most.
  [[nodiscard]] std::size_t growth_bytes() const { return slots_.growth_bytes(); }

 private:
  [[nodiscard]] static Slots::Place search(const Slots::Segment& segment, std::uint64_t digest);
  [[nodiscard]] Slots::Place search(const Ahead& name, const Slots::Spot& spot) const;
  std::uint64_t search_and_insert(const Ahead& name, std::uint64_t value);
  std::uint64_t search_and_erase(const Ahead& name, bool keep_shape);

  [[nodiscard]] static Ahead not_fetched(std::uint64_t digest) {
    Ahead ahead;
    ahead.hash = digest;
    return ahead;
  }

  Slots slots_;
};

[[gnu::always_inline]] inline NameTable::Slots::Place NameTable::search(const Slots::Segment& segment,
                                                                        std::uint64_t digest) {
  return segment.find(digest, [&](const Entry& entry) { return entry.digest == digest; });
}

[[gnu::always_inline]] inline NameTable::Slots::Place NameTable::search(const Ahead& name,
                                                                        const Slots::Spot& spot) const {
  return slots_.find(name, spot, [&](const Entry& entry) { return entry.digest == name.hash; });
}

[[gnu::always_inline]] inline std::uint64_t NameTable::find(const Ahead& name) {
  if (empty()) return 0;
  const Slots::Place place = search(name, slots_.spot(name));
  return place.entry != nullptr ? place.entry->value : 0;
}

[[gnu::always_inline]] inline std::uint64_t NameTable::insert(const Ahead& name, std::uint64_t value) {
  Entry* const slot = slots_.free_slot(name);
  if (slot == nullptr) [[unlikely]]
    return search_and_insert(name, value);
  *slot = {.digest = name.hash, .value = value};
  slots_.added(name);
  return 0;
}

[[gnu::always_inline]] inline std::uint64_t NameTable::erase(const Ahead& name, bool keep_shape) {
  const Entry* const entry = slots_.tagged_entry(name);
  if (entry == nullptr || entry->digest != name.hash || keep_shape || size() == 1) [[unlikely]]
    return search_and_erase(name, keep_shape);
  const std::uint64_t value = entry->value;
  slots_.remove(name);
  return value;
}

}  // namespace kvist::routing

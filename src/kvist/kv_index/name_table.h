// What a worker's names for blocks mean: the writer's side of the KV index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/base/check.h"
#include "kvist/kv_index/segmented_slots.h"
#include "kvist/kv_index/slot_segment.h"

namespace kvist::kv_index {

/// Any 64-bit name, or number, as NameTable knows it: spread over all bits, and not 0: the one name of which that were
/// true stands for another, which nobody will miss.
class NameDigest {
 public:
  NameDigest() = default;  ///< of some name
  explicit NameDigest(std::uint64_t name) {
    constexpr std::uint64_t kFactor = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
    if (name == 0) name = kFactor;                            // no other one becomes 0
    name ^= name >> 32;
    name *= kFactor;
    bits_ = name ^ (name >> 29);
  }
  [[nodiscard]] std::uint64_t bits() const { return bits_; }

 private:
  friend class NameTable;
  std::uint64_t bits_ = 1;
};

/// 32-bit numbers by name, 12.8 bytes per entry before the load factor (0.3 to 0.74). The value 0 means: none. Threads:
/// the writer's.
class NameTable {
 private:
  using Slots = SegmentedSlots<HashLine, false, 1024>;

 public:
  explicit NameTable(IndexMemory& memory) : slots_(memory) {}

  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] bool empty() const { return slots_.size() == 0; }

  /// A change or a search comes: its memory is on its way. Each of find(), insert() and erase() takes one instead of a
  /// name.
  using Ahead = Slots::Ahead;
  /// Prepares many of them, until the next change.
  class Prefetcher {
   public:
    explicit Prefetcher(const NameTable& table) : slots_(table.slots_) {}
    [[gnu::always_inline]] void prefetch(NameDigest name, Ahead& ahead) const { slots_.prefetch(name.bits(), ahead); }

   private:
    Slots::Prefetcher slots_;
  };
  /// Once that is there, before any change of a table that is not empty: what lies behind it is on its way too if it
  /// will be needed.
  static void prefetch_next(const Ahead& ahead) { Slots::prefetch_next(ahead); }
  [[nodiscard]] static Ahead not_fetched(NameDigest name) { return Slots::not_fetched(name.bits()); }
  /// The same name in another table.
  [[nodiscard]] static Ahead not_fetched(const Ahead& name) { return Slots::not_fetched(name.hash); }

  /// 0 where there is none.
  [[nodiscard]] std::uint32_t find(NameDigest name) const;
  [[nodiscard]] std::uint32_t find(const Ahead& name) const { return value_at(slots_.find(name)); }
  /// The same for one that will be erased: that is quicker then.
  [[nodiscard]] std::uint32_t find_to_erase(Ahead& name) const { return value_at(slots_.find_and_note(name)); }
  /// The value that the name had before, which it keeps; 0 where there was none and `value` (not 0) was put.
  std::uint32_t insert(NameDigest name, std::uint32_t value) { return insert(not_fetched(name), value); }
  std::uint32_t insert(const Ahead& name, std::uint32_t value);
  /// Puts a name that find() does not find, with a value that is not 0.
  void put(const Ahead& name, std::uint32_t value) { slots_.put(name, value); }
  /// Changes the value of a name that is there, to another than 0.
  void set(NameDigest name, std::uint32_t value) { set(not_fetched(name), value); }
  void set(const Ahead& name, std::uint32_t value);
  /// The value that the name had; 0 where there was none. `keep_shape`: see for_each_in().
  std::uint32_t erase(NameDigest name, bool keep_shape = false) {
    return erase_elsewhere(not_fetched(name), keep_shape);
  }
  std::uint32_t erase(const Ahead& name, bool keep_shape = false);
  /// No entries and no memory.
  void clear() { slots_.clear(); }

  /// What every search reads first, until the next change.
  [[nodiscard]] std::span<const std::byte> directory_memory() const { return slots_.directory_memory(); }

  /// Entries lie in so many parts.
  [[nodiscard]] std::uint32_t parts() const { return slots_.segments(); }
  /// Calls visit(name, value) for each entry of a part. Entries erased with keep_shape between two parts leave the
  /// parts as they are; compact() then gives the memory back.
  template <class Visit>
  void for_each_in(std::uint32_t part, Visit visit) const {
    slots_.at(part).for_each([&](std::uint64_t hash, std::uint32_t value) {
      NameDigest name;
      name.bits_ = hash;
      visit(name, value);
    });
  }
  void compact() { slots_.compact(); }
  /// As SegmentedSlots::tighten_next().
  void tighten_next() { slots_.tighten_next(); }

  /// What one insertion may allocate at most.
  [[nodiscard]] std::size_t growth_bytes() const { return slots_.growth_bytes(); }

 private:
  [[nodiscard]] static std::uint32_t value_at(const Slots::Place& place) {
    return place.line != nullptr ? place.line->value(place.slot) : 0;
  }
  std::uint32_t erase(Slots::Place place, std::uint64_t hash, bool keep_shape);
  std::uint32_t erase_elsewhere(const Ahead& name, bool keep_shape);

  Slots slots_;
};

[[gnu::always_inline]] inline std::uint32_t NameTable::erase(const Ahead& name, bool keep_shape) {
  if (slots_.knows(name)) [[likely]]
    return erase(Slots::known(name), name.hash, keep_shape);
  return erase_elsewhere(name, keep_shape);
}

[[gnu::always_inline]] inline std::uint32_t NameTable::erase(Slots::Place place, std::uint64_t hash, bool keep_shape) {
  const std::uint32_t value = place.line->value(place.slot);
  place.line->erase(place.slot);
  if (size() == 1 && !keep_shape) [[unlikely]] {
    clear();
  } else {
    slots_.removed(place, hash, keep_shape);
  }
  return value;
}

inline std::uint32_t NameTable::find(NameDigest name) const {
  if (empty()) return 0;
  const Slots::Segment::Place place = slots_.segment(name.bits()).find(name.bits());
  return place.line != nullptr ? place.line->value(place.slot) : 0;
}

[[gnu::noinline]] inline void NameTable::set(const Ahead& name, std::uint32_t value) {
  const Slots::Place place = slots_.find(name);
  KVIST_CHECK(place.line != nullptr && value != 0, "a value is set for a name that has one");
  place.line->set_value(place.slot, value);
}

[[gnu::noinline]] inline std::uint32_t NameTable::insert(const Ahead& name, std::uint32_t value) {
  const std::uint32_t known = find(name);
  if (known == 0) put(name, value);
  return known;
}

[[gnu::noinline]] inline std::uint32_t NameTable::erase_elsewhere(const Ahead& name, bool keep_shape) {
  const Slots::Place place = slots_.find(name);
  return place.line != nullptr ? erase(place, name.hash, keep_shape) : 0;
}

}  // namespace kvist::kv_index

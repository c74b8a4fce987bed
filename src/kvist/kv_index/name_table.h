// What a worker's names for blocks mean: the writer's side of the KV index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/base/check.h"
#include "kvist/kv_index/segmented_slots.h"
#include "kvist/kv_index/slot_segment.h"

namespace kvist::kv_index {

/// A 64-bit name, or number, as a NameTable stores it: a bijection spreads it over all bits. The result is never 0,
/// which marks a free slot; the name 0 shares the digest of one other name.
class NameDigest {
 public:
  NameDigest() = default;  ///< of an arbitrary name
  explicit NameDigest(std::uint64_t name) {
    constexpr std::uint64_t kFactor = 0x9E37'79B9'7F4A'7C15;  // 2^64 / golden ratio
    if (name == 0) name = kFactor;                            // no other one becomes 0
    name ^= name >> 32;
    name *= kFactor;
    bits_ = name ^ (name >> 29);
  }
  [[nodiscard]] std::uint64_t bits() const { return bits_; }
  /// The digest with these bits. Requires: they are not 0.
  [[nodiscard]] static NameDigest of_bits(std::uint64_t bits) {
    NameDigest digest;
    digest.bits_ = bits;
    return digest;
  }
  /// A name with this digest, never 0: the one it was made of, unless that was 0.
  [[nodiscard]] std::uint64_t name() const {
    constexpr std::uint64_t kInverse = 0xF1DE'83E1'9937'733D;  // of the factor, modulo 2^64
    std::uint64_t name = bits_ ^ (bits_ >> 29) ^ (bits_ >> 58);
    name *= kInverse;
    return name ^ (name >> 32);
  }

 private:
  friend class NameTable;
  std::uint64_t bits_ = 1;
};

/// A hash table from names to 32-bit values, 12.8 bytes per entry divided by the load (0.3 to 0.74). The value 0 means
/// that there is no entry. Threads: the writer's.
class NameTable {
 private:
  using Slots = SegmentedSlots<HashLine, false, 1024>;

 public:
  explicit NameTable(IndexMemory& memory) : slots_(memory) {}

  [[nodiscard]] std::size_t size() const { return slots_.size(); }
  [[nodiscard]] bool empty() const { return slots_.size() == 0; }

  /// A look-up whose memory may have been prefetched. find(), insert() and erase() take one instead of a name.
  using Lookup = Slots::Lookup;
  /// Makes many look-ups and prefetches their memory. Valid until the next change of the table.
  class Prefetcher {
   public:
    explicit Prefetcher(const NameTable& table) : slots_(table.slots_) {}
    [[gnu::always_inline]] void prefetch(NameDigest name, Lookup& lookup) const {
      slots_.prefetch(name.bits(), lookup);
    }

   private:
    Slots::Prefetcher slots_;
  };
  /// Prefetches the next line if the look-up will need it. Requires: the look-up was prefetched, the table is not
  /// empty, and it has not changed since. Useful once the first line is in the cache.
  static void prefetch_next(const Lookup& lookup) { Slots::prefetch_next(lookup); }
  [[nodiscard]] static Lookup not_fetched(NameDigest name) { return Slots::not_fetched(name.bits()); }
  /// The same name in another table.
  [[nodiscard]] static Lookup not_fetched(const Lookup& name) { return Slots::not_fetched(name.hash); }

  /// Returns the value of a name; 0 if it has none.
  [[nodiscard]] std::uint32_t find(NameDigest name) const;
  [[nodiscard]] std::uint32_t find(const Lookup& name) const { return value_at(slots_.find(name)); }
  /// As find(), and makes a later erase() of the name faster.
  [[nodiscard]] std::uint32_t find_to_erase(Lookup& name) const { return value_at(slots_.find_and_note(name)); }
  /// Puts a value, which must not be 0, unless the name has one. Returns the value that the name had and keeps, 0 if it
  /// had none.
  std::uint32_t insert(NameDigest name, std::uint32_t value) { return insert(not_fetched(name), value); }
  std::uint32_t insert(const Lookup& name, std::uint32_t value);
  /// Puts a name. Requires: find() does not find it, and the value is not 0.
  void put(const Lookup& name, std::uint32_t value) { slots_.put(name, value); }
  /// Changes the value of a name. Requires: the name has one, and the new one is not 0.
  void set(NameDigest name, std::uint32_t value) { set(not_fetched(name), value); }
  void set(const Lookup& name, std::uint32_t value);
  /// Erases a name and returns its value, 0 if it had none. `keep_shape`: see for_each_in().
  std::uint32_t erase(NameDigest name, bool keep_shape = false) {
    return erase_elsewhere(not_fetched(name), keep_shape);
  }
  std::uint32_t erase(const Lookup& name, bool keep_shape = false);
  /// Erases all entries and frees their memory.
  void clear() { slots_.clear(); }

  /// The memory that every search reads first. Valid until the next change.
  [[nodiscard]] std::span<const std::byte> directory_memory() const { return slots_.directory_memory(); }

  /// How many parts the entries are divided into.
  [[nodiscard]] std::uint32_t parts() const { return slots_.segments(); }
  /// Calls visit(name, value) for each entry of a part. Erasing entries with keep_shape between two calls leaves the
  /// parts as they are; compact() gives the memory back afterwards.
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

  /// How much one insertion may allocate at most.
  [[nodiscard]] std::size_t growth_bytes() const { return slots_.growth_bytes(); }

 private:
  [[nodiscard]] static std::uint32_t value_at(const Slots::Place& place) {
    return place.line != nullptr ? place.line->value(place.slot) : 0;
  }
  std::uint32_t erase(Slots::Place place, std::uint64_t hash, bool keep_shape);
  std::uint32_t erase_elsewhere(const Lookup& name, bool keep_shape);

  Slots slots_;
};

[[gnu::always_inline]] inline std::uint32_t NameTable::erase(const Lookup& name, bool keep_shape) {
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

[[gnu::noinline]] inline void NameTable::set(const Lookup& name, std::uint32_t value) {
  const Slots::Place place = slots_.find(name);
  KVIST_CHECK(place.line != nullptr && value != 0, "a value is set for a name that has one");
  place.line->set_value(place.slot, value);
}

[[gnu::noinline]] inline std::uint32_t NameTable::insert(const Lookup& name, std::uint32_t value) {
  const std::uint32_t known = find(name);
  if (known == 0) put(name, value);
  return known;
}

[[gnu::noinline]] inline std::uint32_t NameTable::erase_elsewhere(const Lookup& name, bool keep_shape) {
  const Slots::Place place = slots_.find(name);
  return place.line != nullptr ? erase(place, name.hash, keep_shape) : 0;
}

}  // namespace kvist::kv_index

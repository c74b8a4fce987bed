// A hash map for ids in one array, for look-ups of requests and blocks on hot paths.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace kvist {

/// Spreads keys over the 64 bits of which FlatMap takes the upper ones: times 2^64 / golden ratio (Fibonacci hashing).
/// Consecutive ids lie evenly, and every bit of a hash counts.
struct GoldenSpread {
  static constexpr std::uint64_t kMultiplier = 0x9E37'79B9'7F4A'7C15;
  [[nodiscard]] static constexpr std::uint64_t of(std::uint64_t key) { return key * kMultiplier; }
};

/// For keys that a client can choose: by two odd numbers that are others in each process. One is not enough: keys at
/// equal distances stay at equal distances when they are multiplied, so that one process in some hundreds would have
/// them side by side. What the fold between the two does to them cannot be known beforehand.
class RandomSpread {
 public:
  [[nodiscard]] static std::uint64_t of(std::uint64_t key) {
    key *= multipliers_[0];
    return (key ^ (key >> 32)) * multipliers_[1];
  }

 private:
  static const std::array<std::uint64_t, 2> multipliers_;
};

/// Open addressing with linear probing, for keys that are Id<> types. A look-up reads about one cache line, an entry
/// needs no allocation, and the array shrinks as well as grows. The order has no meaning and is only visible in
/// for_each(). Pointers to values are valid until the next insertion or erasure. Requires: default-constructible,
/// movable values.
template <class Key, class Value, class Spread = GoldenSpread>
class FlatMap {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool contains(Key key) const { return find(key) != nullptr; }

  [[nodiscard]] const Value* find(Key key) const {
    if (size_ == 0) return nullptr;
    for (std::size_t i = home(key);; i = next(i)) {
      if (!slots_[i].used) return nullptr;
      if (slots_[i].key == key) return &slots_[i].value;
    }
  }
  [[nodiscard]] Value* find(Key key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

  /// Prefetches the slot where the key is or would be.
  void prefetch(Key key) const {
    if (size_ > 0) __builtin_prefetch(&slots_[home(key)]);
  }

  /// The value of a key, default-constructed if there was none, and whether that happened.
  std::pair<Value*, bool> try_emplace(Key key) {
    if ((size_ + 1) * 4 > slots_.size() * 3) resize(std::max(kLeastSlots, slots_.size() * 2));
    std::size_t i = home(key);
    for (; slots_[i].used; i = next(i)) {
      if (slots_[i].key == key) return {&slots_[i].value, false};
    }
    slots_[i].used = true;
    slots_[i].key = key;
    ++size_;
    return {&slots_[i].value, true};
  }
  Value& operator[](Key key) { return *try_emplace(key).first; }

  /// Erases an entry. Returns whether there was one.
  bool erase(Key key) {
    if (size_ == 0) return false;
    std::size_t hole = home(key);
    for (; slots_[hole].key != key || !slots_[hole].used; hole = next(hole)) {
      if (!slots_[hole].used) return false;
    }
    // Later entries move up, so that there are no tombstones.
    for (std::size_t i = next(hole); slots_[i].used; i = next(i)) {
      const std::size_t from_home = (i - home(slots_[i].key)) & (slots_.size() - 1);
      if (from_home < ((i - hole) & (slots_.size() - 1))) continue;
      slots_[hole].key = slots_[i].key;
      slots_[hole].value = std::move(slots_[i].value);
      hole = i;
    }
    slots_[hole].used = false;
    slots_[hole].value = Value();
    --size_;
    // At least as many erasures precede a shrinking as there are entries left, so the amortised cost is constant.
    if (slots_.size() > kLeastSlots && size_ < slots_.size() / 8) resize(slots_.size() / 2);
    return true;
  }

  void clear() {
    slots_.clear();
    size_ = 0;
  }

  /// The greatest number of slots that a look-up of an entry reads.
  [[nodiscard]] std::size_t longest_search() const {
    std::size_t longest = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].used) longest = std::max(longest, ((i - home(slots_[i].key)) & (slots_.size() - 1)) + 1);
    }
    return longest;
  }

  /// Calls visit(key, value) for each entry, in no particular order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.used) visit(slot.key, slot.value);
    }
  }

 private:
  static constexpr std::size_t kLeastSlots = 16;
  struct Slot {
    Key key{};
    Value value{};
    bool used = false;
  };

  [[nodiscard]] std::size_t home(Key key) const {
    return static_cast<std::size_t>(Spread::of(static_cast<std::uint64_t>(key.value())) >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t i) const { return (i + 1) & (slots_.size() - 1); }

  void resize(std::size_t slots) {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
    shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
    for (Slot& slot : old) {
      if (!slot.used) continue;
      std::size_t i = home(slot.key);
      while (slots_[i].used) i = next(i);
      slots_[i] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two of them, or none
  unsigned shift_ = 64;
  std::size_t size_ = 0;
};

}  // namespace kvist

// A table whose values are found by a handle without searching.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kvist/base/check.h"

namespace kvist {

/// Names one value of a SlotTable<Value>. A handle whose value was erased names nothing, even after the slot is reused.
/// A default-constructed handle names nothing.
template <class Value>
struct SlotHandle {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< of the slot; 0: none
  friend bool operator==(const SlotHandle&, const SlotHandle&) = default;
};

/// Values in numbered slots: a look-up is an index and one comparison. A slot is reused with another generation, so
/// that a stale handle is recognised and not taken for that of the next value. (After 2^32 - 1 uses of a slot its
/// generations repeat.) Values never move, so references are valid until their value is erased. Memory: as many slots
/// as there were values at once. Requires: default-constructible values. Threads: one.
template <class Value>
class SlotTable {
 public:
  using Handle = SlotHandle<Value>;

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }

  [[nodiscard]] Value* find(Handle handle) {
    if (handle.slot >= slots_) return nullptr;
    Slot& slot = at(handle.slot);
    return slot.used && slot.generation == handle.generation ? &slot.value : nullptr;
  }
  [[nodiscard]] const Value* find(Handle handle) const { return const_cast<SlotTable*>(this)->find(handle); }

  Handle insert(Value value) {
    if (free_.empty()) add_chunk();
    const std::uint32_t number = free_.back();
    free_.pop_back();
    Slot& slot = at(number);
    slot.value = std::move(value);
    slot.used = true;
    if (++slot.generation == 0) slot.generation = 1;
    ++size_;
    return {.slot = number, .generation = slot.generation};
  }

  /// Erases a value. Returns whether there was one.
  bool erase(Handle handle) {
    if (find(handle) == nullptr) return false;
    Slot& slot = at(handle.slot);
    slot.used = false;
    slot.value = Value();
    free_.push_back(handle.slot);
    --size_;
    return true;
  }

  /// Calls visit(value) for each value, in the order of their slots, which has no meaning.
  template <class Visit>
  void for_each(Visit visit) {
    for (std::uint32_t i = 0; i < slots_; ++i) {
      if (at(i).used) visit(at(i).value);
    }
  }

  /// Calls visit(handle, value) for each value, likewise.
  template <class Visit>
  void for_each_handle(Visit visit) {
    for (std::uint32_t i = 0; i < slots_; ++i) {
      Slot& slot = at(i);
      if (slot.used) visit(Handle{.slot = i, .generation = slot.generation}, slot.value);
    }
  }

  /// Prefetches the value, for callers with many handles at once.
  void prefetch(Handle handle) const {
    if (handle.slot < slots_) __builtin_prefetch(&chunks_[handle.slot / kChunk][handle.slot % kChunk]);
  }

 private:
  static constexpr std::uint32_t kChunk = 64;
  struct Slot {
    std::uint32_t generation = 0;
    bool used = false;
    Value value{};
  };

  [[nodiscard]] Slot& at(std::uint32_t number) { return chunks_[number / kChunk][number % kChunk]; }

  void add_chunk() {
    KVIST_CHECK(slots_ < ~0U - kChunk, "a table is far smaller than its numbers reach");
    chunks_.push_back(std::make_unique<Slot[]>(kChunk));
    for (std::uint32_t i = kChunk; i > 0; --i) free_.push_back(slots_ + i - 1);  // the lowest is taken first
    slots_ += kChunk;
  }

  std::vector<std::unique_ptr<Slot[]>> chunks_;
  std::vector<std::uint32_t> free_;
  std::uint32_t slots_ = 0;
  std::size_t size_ = 0;
};

}  // namespace kvist

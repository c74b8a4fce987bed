// Which slots of a hash table's cache line have entries.
#pragma once

#include <atomic>
#include <cstdint>

namespace kvist::kv_index {

/// The slots of one line with an entry, and how many entries went on past the line because it was full; zero while
/// fresh. Threads: one writes; others may call passed().
template <std::uint32_t kSlots>
class SlotMarks {
 public:
  static constexpr std::uint32_t kAll = (1U << kSlots) - 1;

  /// As bits of a number: those with an entry, and the others.
  [[nodiscard]] std::uint32_t live() const { return bits_.load(std::memory_order_relaxed) & kAll; }
  [[nodiscard]] std::uint32_t free() const { return ~bits_.load(std::memory_order_relaxed) & kAll; }
  [[nodiscard]] std::uint32_t passed() const { return bits_.load(std::memory_order_acquire) / kOnePassed; }
  /// Whether a search may go on to the next line, or a change: some entry did, or no slot is free.
  [[nodiscard]] bool leads_on() const { return bits_.load(std::memory_order_relaxed) >= kAll; }

  void add(std::uint32_t slot) {
    bits_.store(bits_.load(std::memory_order_relaxed) | 1U << slot, std::memory_order_relaxed);
  }
  /// To none.
  void add_first(std::uint32_t slots) {
    bits_.store(bits_.load(std::memory_order_relaxed) | ((1U << slots) - 1), std::memory_order_relaxed);
  }
  void remove(std::uint32_t slot) {
    bits_.store(bits_.load(std::memory_order_relaxed) & ~(1U << slot), std::memory_order_relaxed);
  }
  void count_passed(int by) {
    bits_.store(bits_.load(std::memory_order_relaxed) + static_cast<std::uint32_t>(by) * kOnePassed,
                std::memory_order_release);
  }

 private:
  static constexpr std::uint32_t kOnePassed = 1U << kSlots;

  std::atomic<std::uint32_t> bits_;  // a bit per slot, then how many passed
};

}  // namespace kvist::kv_index

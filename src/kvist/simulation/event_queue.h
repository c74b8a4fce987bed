// The event queue of the discrete-event simulation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/time.h"

namespace kvist::simulation {

/// Events by time, and those of one instant in the order in which they were scheduled, which makes a run reproducible.
/// It is a heap with four children per node, which needs the fewest cache lines per operation for entries of half a
/// line. The events that come next are taken out of it and sorted: most new events are messages that come sooner than
/// most of the others, and find their place there. `Payload` is a small value, so nothing is allocated per event.
/// Threads: one.
template <class Payload>
class EventQueue {
 public:
  [[nodiscard]] bool empty() const { return next_count_ == 0 && heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return next_count_ + heap_.size(); }

  void push(TimePoint at, Payload payload) {
    const Entry entry{.at = at, .order = ++last_order_, .payload = payload};
    if (next_count_ == 0 || !before(entry, next_[0])) return push_heap(entry);
    if (next_count_ == kNext) {
      push_heap(next_[0]);
      std::move(next_.begin() + 1, next_.begin() + kNext, next_.begin());
      --next_count_;
    }
    insert_next(entry);
  }

  /// Removes and returns the earliest event. Requires: the queue is not empty.
  [[nodiscard]] std::pair<TimePoint, Payload> pop() {
    KVIST_CHECK(!empty(), "no event is left");
    if (next_count_ == 0) take_next();
    const Entry& first = next_[--next_count_];
    return {first.at, first.payload};
  }

 private:
  static constexpr std::size_t kChildren = 4;
  static constexpr std::size_t kNext = 16;
  struct Entry {
    TimePoint at;
    std::uint64_t order;
    Payload payload;
  };

  [[nodiscard]] static bool before(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at < b.at : a.order < b.order;
  }

  // Fills next_. Requires: it is empty.
  void take_next() {
    next_count_ = std::min(kNext, heap_.size());
    for (std::size_t i = next_count_; i > 0; --i) next_[i - 1] = pop_heap();
  }

  // Behind all that are earlier. Requires: there is room, and nothing in the heap is earlier.
  void insert_next(const Entry& entry) {
    std::size_t i = next_count_++;
    for (; i > 0 && before(next_[i - 1], entry); --i) next_[i] = next_[i - 1];
    next_[i] = entry;
  }

  void push_heap(const Entry& entry) {
    heap_.push_back(entry);
    std::size_t i = heap_.size() - 1;
    while (i > 0) {
      const std::size_t parent = (i - 1) / kChildren;
      if (!before(entry, heap_[parent])) break;
      heap_[i] = heap_[parent];
      i = parent;
    }
    heap_[i] = entry;
  }

  Entry pop_heap() {
    const Entry first = heap_.front();
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    return first;
  }

  // Inserts `entry`, given that the top is free.
  void sift_down(const Entry& entry) {
    std::size_t i = 0;
    for (std::size_t first = 1; first < heap_.size(); first = i * kChildren + 1) {
      const std::size_t end = std::min(first + kChildren, heap_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (before(heap_[child], heap_[least])) least = child;
      }
      if (!before(heap_[least], entry)) break;
      heap_[i] = heap_[least];
      i = least;
    }
    heap_[i] = entry;
  }

  // The earliest events, the first of them last.
  std::array<Entry, kNext> next_{};
  std::size_t next_count_ = 0;
  std::vector<Entry> heap_;
  std::uint64_t last_order_ = 0;
};

}  // namespace kvist::simulation

// The event queue of the discrete-event simulation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/time.h"

namespace kvist::simulation {

/// Events by time, and those of one instant in the order in which they were scheduled, which makes a run reproducible.
/// It is a heap with four children per node, which needs the fewest cache lines per operation for entries of half a
/// line. `Payload` is a small value, so nothing is allocated per event. Threads: one.
template <class Payload>
class EventQueue {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  /// Requires: the queue is not empty.
  [[nodiscard]] TimePoint next_time() const { return heap_.front().at; }

  void push(TimePoint at, Payload payload) {
    const Entry entry{.at = at, .order = ++last_order_, .payload = payload};
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

  /// Removes and returns the earliest event. Requires: the queue is not empty.
  [[nodiscard]] std::pair<TimePoint, Payload> pop() {
    KVIST_CHECK(!heap_.empty(), "no event is left");
    const std::pair<TimePoint, Payload> first{heap_.front().at, heap_.front().payload};
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    return first;
  }

 private:
  static constexpr std::size_t kChildren = 4;
  struct Entry {
    TimePoint at;
    std::uint64_t order;
    Payload payload;
  };

  [[nodiscard]] static bool before(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at < b.at : a.order < b.order;
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

  std::vector<Entry> heap_;
  std::uint64_t last_order_ = 0;
};

}  // namespace kvist::simulation

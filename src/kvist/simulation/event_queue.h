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
/// line. The events that come next are taken out of it before they are due, so that their memory can be asked for
/// (prepare()). `Payload` is a small value, so nothing is allocated per event. Threads: one.
template <class Payload>
class EventQueue {
 public:
  /// The events that prepare() knows, at most.
  static constexpr std::size_t kNext = 16;

  [[nodiscard]] bool empty() const { return next_count_ == 0 && heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return next_count_ + heap_.size(); }

  void push(TimePoint at, Payload payload) {
    const Entry entry{.at = at, .order = ++last_order_, .payload = payload};
    if (next_count_ == 0 || !before(entry, next_[0].entry)) return push_heap(entry);
    if (next_count_ == kNext) {
      push_heap(next_[0].entry);
      std::move(next_.begin() + 1, next_.begin() + kNext, next_.begin());
      --next_count_;
    }
    insert_next(entry);
  }

  /// Removes and returns the earliest event. Requires: the queue is not empty.
  [[nodiscard]] std::pair<TimePoint, Payload> pop() {
    KVIST_CHECK(!empty(), "no event is left");
    if (next_count_ == 0) take_next();
    const Entry& first = next_[--next_count_].entry;
    return {first.at, first.payload};
  }

  /// For each event that comes soon, calls `visit(payload, number)`, with the number of earlier calls for the event,
  /// below `calls`.
  template <class Visit>
  void prepare(unsigned calls, Visit visit) {
    if (next_count_ <= kNext / 2) take_next();
    for (std::size_t i = 0; i < next_count_; ++i) {
      Next& next = next_[i];
      if (next.prepared < calls) visit(next.entry.payload, next.prepared++);
    }
  }

 private:
  static constexpr std::size_t kChildren = 4;
  struct Entry {
    TimePoint at;
    std::uint64_t order;
    Payload payload;
  };
  struct Next {
    Entry entry;
    unsigned prepared = 0;
  };

  [[nodiscard]] static bool before(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at < b.at : a.order < b.order;
  }

  // Fills next_ from its beginning with those that come behind the ones that are there.
  void take_next() {
    const std::size_t added = std::min(kNext - next_count_, heap_.size());
    if (added == 0) return;
    std::move_backward(next_.begin(), next_.begin() + next_count_, next_.begin() + next_count_ + added);
    next_count_ += added;
    for (std::size_t i = added; i > 0; --i) next_[i - 1] = {.entry = pop_heap(), .prepared = 0};
  }

  // Behind all that are earlier. Requires: there is room, and nothing in the heap is earlier.
  void insert_next(const Entry& entry) {
    std::size_t i = next_count_++;
    for (; i > 0 && before(next_[i - 1].entry, entry); --i) next_[i] = next_[i - 1];
    next_[i] = {.entry = entry, .prepared = 0};
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
  std::array<Next, kNext> next_{};
  std::size_t next_count_ = 0;
  std::vector<Entry> heap_;
  std::uint64_t last_order_ = 0;
};

}  // namespace kvist::simulation

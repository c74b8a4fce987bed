// Requests that wait in the gateway for a batch slot of any worker.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"

namespace kvist::dispatch {

/// Bounded, each with a deadline. Who is next is decided by what the free slot is worth to each, and by age: the least
/// of (expected time to first token there - time waited), so that a deep cache goes first and nobody starves; the
/// earlier deadline, then the earlier arrival, break ties. Pure; one thread.
class WaitingQueue {
 public:
  struct Entry {
    RequestId id;
    TimePoint since;
    TimePoint deadline;
  };
  /// As many of the longest waiting are compared, so that a decision costs the same whatever the queue's length.
  static constexpr std::size_t kCompared = 32;

  explicit WaitingQueue(std::size_t most) : most_(most) {}

  [[nodiscard]] bool has_room() const { return entries_.size() < most_; }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// Requires has_room(). Times never fall.
  void push(Entry entry) { entries_.push_back(entry); }
  /// Whether it was there.
  bool erase(RequestId id) {
    return std::erase_if(entries_, [id](const Entry& entry) { return entry.id == id; }) > 0;
  }

  /// One whose deadline has passed; it stays until it is erased.
  [[nodiscard]] std::optional<RequestId> overdue(TimePoint now) const {
    for (const Entry& entry : entries_) {
      if (entry.deadline <= now) return entry.id;
    }
    return std::nullopt;
  }
  /// The one to serve next. `ttft_ms(id)`: what it would take from now on with the slot there is, nothing where it
  /// could not use it.
  template <class TimeToFirstToken>
  [[nodiscard]] std::optional<RequestId> next(TimePoint now, TimeToFirstToken&& ttft_ms) const {
    const Entry* best = nullptr;
    double best_score = 0;
    for (std::size_t i = 0; i < entries_.size() && i < kCompared; ++i) {
      const std::optional<double> ms = ttft_ms(entries_[i].id);
      if (!ms) continue;
      const double score = *ms - to_milliseconds(now - entries_[i].since);
      const bool tie = best != nullptr && score == best_score && entries_[i].deadline < best->deadline;
      if (best != nullptr && score >= best_score && !tie) continue;
      best = &entries_[i];
      best_score = score;
    }
    return best == nullptr ? std::nullopt : std::optional(best->id);
  }

 private:
  std::size_t most_;
  std::deque<Entry> entries_;  // by arrival
};

}  // namespace kvist::dispatch

// The contents of messages in transit; events refer to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "kvist/base/check.h"

namespace kvist::simulation {

/// A store of messages in transit: a message is put in, an event is scheduled with its number, and the message is taken
/// out when the event comes. Until then it stays where it is. Numbers are reused. Memory: that of the most messages in
/// transit at once. Threads: one.
template <class Message>
class Parcels {
 public:
  [[nodiscard]] std::uint64_t put(Message message) {
    if (free_.empty()) {
      slots_.push_back(std::move(message));
      return slots_.size() - 1;
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    slots_[slot] = std::move(message);
    return slot;
  }
  [[nodiscard]] Message take(std::uint64_t slot) {
    KVIST_CHECK(slot < slots_.size(), "no such parcel");
    free_.push_back(static_cast<std::size_t>(slot));
    return std::move(slots_[slot]);
  }
  /// Puts in what `message` holds. It gets what is left of an earlier message, whose memory it can use again.
  [[nodiscard]] std::uint64_t exchange(Message& message) {
    if (free_.empty()) {
      slots_.emplace_back();
      free_.push_back(slots_.size() - 1);
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    std::swap(slots_[slot], message);
    return slot;
  }
  /// The transit of a message ends, which has been emptied where it is.
  void end(std::uint64_t slot) { free_.push_back(static_cast<std::size_t>(slot)); }
  /// A message that stays in transit.
  [[nodiscard]] const Message& at(std::uint64_t slot) const { return slots_[slot]; }
  [[nodiscard]] Message& at(std::uint64_t slot) { return slots_[slot]; }
  [[nodiscard]] std::size_t in_transit() const { return slots_.size() - free_.size(); }

 private:
  std::deque<Message> slots_;
  std::vector<std::size_t> free_;
};

}  // namespace kvist::simulation

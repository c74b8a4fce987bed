// A table of state per turn under way, which needs no search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/prefetch.h"
#include "kvist/simulation/messages.h"

namespace kvist::simulation {

/// One value per turn under way. A TurnId contains its slot: the client gives each slot to one turn at a time, and a
/// new turn's request never overtakes the end of the slot's previous one, so the gateway can use the same slots. A
/// look-up is one comparison, also for a turn that has ended. Memory: as many slots as there were turns at once.
/// Pointers are valid until the next insertion. Threads: one.
template <class Value>
class TurnTable {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool contains(TurnId turn) const {
    return place_of(turn) < entries_.size() && entries_[place_of(turn)].turn == turn;
  }
  [[nodiscard]] Value* find(TurnId turn) { return contains(turn) ? &entries_[place_of(turn)].value : nullptr; }

  Value& insert(TurnId turn, Value value) {
    if (place_of(turn) >= entries_.size()) entries_.resize(place_of(turn) + 1U);
    Entry& entry = entries_[place_of(turn)];
    KVIST_CHECK(entry.turn == TurnId{}, "one turn at a time has a place");
    entry = {.turn = turn, .value = std::move(value)};
    ++size_;
    return entry.value;
  }
  /// Requires: the turn is in the table.
  void erase(TurnId turn) {
    KVIST_CHECK(contains(turn), "a turn ends once");
    entries_[place_of(turn)] = {};
    --size_;
  }

  /// Calls visit(turn, value) for each entry, in the order of slots.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Entry& entry : entries_) {
      if (entry.turn != TurnId{}) visit(entry.turn, entry.value);
    }
  }
  /// Prefetches the entry, because a step looks up many turns, which in a large fleet are not in the processor's cache.
  void prefetch(TurnId turn) const {
    if (place_of(turn) >= entries_.size()) return;
    prefetch_object(entries_[place_of(turn)]);
  }

 private:
  struct Entry {
    TurnId turn;  // none: 0
    Value value;
  };
  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace kvist::simulation

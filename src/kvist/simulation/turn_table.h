// State per turn under way, found without searching.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/simulation/messages.h"

namespace kvist::simulation {

/// One value per turn under way. A TurnId says its place: the client gives each place to one turn at a time, and a new
/// turn's request never overtakes the end of the place's old one, so the gateway can use the same places. A look-up is
/// one comparison, also of a turn that is over. Memory: as many places as there were turns at once. Pointers hold until
/// the next insertion.
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
  /// Requires that the turn is in the table.
  void erase(TurnId turn) {
    KVIST_CHECK(contains(turn), "a turn ends once");
    entries_[place_of(turn)] = {};
    --size_;
  }

  /// Calls visit(turn, value) for each entry, by place.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const Entry& entry : entries_) {
      if (entry.turn != TurnId{}) visit(entry.turn, entry.value);
    }
  }
  /// Has the processor fetch the entry: a step looks up many turns, and those of a large fleet are in no cache.
  void prefetch(TurnId turn) const {
    if (place_of(turn) >= entries_.size()) return;
    const auto* const entry = reinterpret_cast<const char*>(&entries_[place_of(turn)]);
    for (std::size_t offset = 0; offset < sizeof(Entry); offset += kCacheLineBytes) __builtin_prefetch(entry + offset);
  }

 private:
  static constexpr std::size_t kCacheLineBytes = 64;
  struct Entry {
    TurnId turn;  // none: 0
    Value value;
  };
  std::vector<Entry> entries_;
  std::size_t size_ = 0;
};

}  // namespace kvist::simulation

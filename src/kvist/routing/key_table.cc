#include "kvist/routing/key_table.h"

namespace kvist::routing {

bool KeyTable::may_reuse(const Line& line, std::uint32_t slot) const {
  const std::uint64_t now = epochs_.current();
  const std::uint64_t ago = (now - line.uses[slot].load(std::memory_order_relaxed)) & (kDead - 1);
  return epochs_.passed(now - ago);
}

KeyTable::Place KeyTable::find_or_place(std::uint64_t key) {
  const std::uint64_t hash = spread(key);
  lines_.make_room(hash);
  const Lines::Segment segment = lines_.segment(hash);
  Place place;
  for (std::uint32_t i = segment.home(hash);; i = segment.next(i)) {
    Line& line = segment.lines[i];
    for (std::uint32_t s = 0; s < Lines::kSlots; ++s) {
      const std::uint64_t here = line.keys[s].load(std::memory_order_relaxed);
      const bool unused = here == kNoKey;
      if (here == key || (place.line_ == nullptr && (unused || (here == kDeadKey && may_reuse(line, s))))) {
        place.line_ = &line;
        place.slot_ = s;
        place.found_ = here == key;
        place.fresh_ = unused;
      }
      if (unused || here == key) return place;
    }
  }
}

void KeyTable::put(Place place, std::uint64_t key, std::uint32_t set, BlockUse use) {
  place.line_->uses[place.slot_].store(use.bits(), std::memory_order_relaxed);
  place.line_->sets[place.slot_].store(set, std::memory_order_relaxed);
  place.line_->keys[place.slot_].store(key, std::memory_order_release);
  lines_.added(spread(key), place.fresh_);
}

// The key goes first: whoever begins to search now does not find the slot. Readers that found it before see the set
// that it had, or none.
void KeyTable::erase(const Place& place, std::uint64_t key) {
  Line& line = *place.line_;
  line.keys[place.slot_].store(kDeadKey, std::memory_order_release);
  line.sets[place.slot_].store(kNoWorkers, std::memory_order_release);
  line.uses[place.slot_].store(kDead | static_cast<std::uint32_t>(epochs_.current() & (kDead - 1)),
                               std::memory_order_relaxed);
  lines_.removed(spread(key), false);
}

}  // namespace kvist::routing

#include "kvist/routing/key_table.h"

#include <bit>

namespace kvist::routing {

bool KeyTable::may_reuse(const Line& line, std::uint32_t slot) const {
  const std::uint64_t now = epochs_.current();
  const std::uint64_t ago = (now - line.uses[slot].load(std::memory_order_relaxed)) & (kDead - 1);
  return epochs_.passed(now - ago);
}

KeyTable::Place KeyTable::find_or_place(std::uint64_t key) {
  const std::uint64_t hash = spread(key);
  const Lines::Spot spot = lines_.spot_with_room(hash);
  const Lines::Segment segment = spot.segment;
  Place place;
  place.number_ = spot.number;
  for (std::uint32_t i = segment.home(hash);; i = segment.next(i)) {
    Line& line = segment.lines[i];
    const auto key_of = [&](std::uint32_t s) { return line.keys[s].load(std::memory_order_relaxed); };
    const std::uint32_t equal = Lines::slots_where([&](std::uint32_t s) { return key_of(s) == key; });
    if (equal != 0) {
      place.line_ = &line;
      place.slot_ = static_cast<std::uint32_t>(std::countr_zero(equal));
      place.found_ = true;
      return place;
    }
    const std::uint32_t fresh = Lines::slots_where([&](std::uint32_t s) { return key_of(s) == kNoKey; });
    if (place.line_ == nullptr) {
      for (std::uint32_t dead = Lines::slots_where([&](std::uint32_t s) { return key_of(s) == kDeadKey; }); dead != 0;
           dead &= dead - 1) {
        const auto s = static_cast<std::uint32_t>(std::countr_zero(dead));
        if (!may_reuse(line, s)) continue;
        place.line_ = &line;
        place.slot_ = s;
        break;
      }
    }
    if (fresh == 0) continue;
    if (place.line_ == nullptr) {
      place.line_ = &line;
      place.slot_ = static_cast<std::uint32_t>(std::countr_zero(fresh));
      place.fresh_ = true;
    }
    return place;
  }
}

void KeyTable::put(const Place& place, std::uint64_t key, std::uint32_t set, BlockUse use) {
  place.line_->uses[place.slot_].store(use.bits(), std::memory_order_relaxed);
  place.line_->sets[place.slot_].store(set, std::memory_order_relaxed);
  place.line_->keys[place.slot_].store(key, std::memory_order_release);
  lines_.added(place.number_, place.fresh_);
}

void KeyTable::erase(const Place& place, std::uint64_t key) {
  Line& line = *place.line_;
  const Lines::Spot spot = lines_.spot(spread(key));
  if (!epochs_.has_readers()) {
    Lines::close_gap(spot.segment, static_cast<std::uint32_t>(place.line_ - spot.segment.lines), place.slot_);
    return lines_.removed(spot, 1);
  }
  // The key goes first: whoever begins to search now does not find the slot. Readers that found it before see the set
  // that it had, or none.
  line.keys[place.slot_].store(kDeadKey, std::memory_order_release);
  line.sets[place.slot_].store(kNoWorkers, std::memory_order_release);
  line.uses[place.slot_].store(kDead | static_cast<std::uint32_t>(epochs_.current() & (kDead - 1)),
                               std::memory_order_relaxed);
  lines_.removed(spot, bury(line));
}

// Where searches end anyway, the dead need not stand for the way on: their slots are fresh again.
std::uint32_t KeyTable::bury(Line& line) const {
  bool ends_searches = false;
  for (std::uint32_t s = 0; s < Lines::kSlots; ++s) ends_searches = ends_searches || !line.used(s);
  if (!ends_searches) return 0;
  std::uint32_t fresh = 0;
  for (std::uint32_t s = 0; s < Lines::kSlots; ++s) {
    if (line.keys[s].load(std::memory_order_relaxed) != kDeadKey || !may_reuse(line, s)) continue;
    line.clear(s);
    ++fresh;
  }
  return fresh;
}

}  // namespace kvist::routing

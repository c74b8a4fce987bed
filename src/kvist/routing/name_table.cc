#include "kvist/routing/name_table.h"

#include <bit>

namespace kvist::routing {

[[gnu::always_inline]] inline NameTable::Place NameTable::search(Lines::Segment segment, std::uint64_t hash,
                                                                 std::uint64_t name) {
  for (std::uint32_t i = segment.home(hash);; i = segment.next(i)) {
    Line& line = segment.lines[i];
    // Unused slots may still have the name that they once had.
    for (std::uint32_t equal = Lines::slots_where([&](std::uint32_t s) { return line.names[s] == name; }); equal != 0;
         equal &= equal - 1) {
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(equal));
      if (line.used(slot)) return {.line = &line, .index = i, .slot = slot, .found = true};
    }
    const std::uint32_t unused = Lines::slots_where([&](std::uint32_t s) { return !line.used(s); });
    if (unused != 0) {
      const auto slot = static_cast<std::uint32_t>(std::countr_zero(unused));
      return {.line = &line, .index = i, .slot = slot, .found = false};
    }
  }
}

std::uint64_t NameTable::find(std::uint64_t name) const {
  if (empty()) return 0;
  const std::uint64_t hash = spread(name);
  const Place place = search(lines_.segment(hash), hash, name);
  return place.found ? place.line->values[place.slot] : 0;
}

std::uint64_t NameTable::insert(std::uint64_t name, std::uint64_t value) {
  const std::uint64_t hash = spread(name);
  const Lines::Spot spot = lines_.spot_with_room(hash);
  const Place place = search(spot.segment, hash, name);
  if (place.found) return place.line->values[place.slot];
  place.line->names[place.slot] = name;
  place.line->values[place.slot] = value;
  lines_.added(spot.number, true);
  return 0;
}

void NameTable::set(std::uint64_t name, std::uint64_t value) {
  const std::uint64_t hash = spread(name);
  const Place place = search(lines_.segment(hash), hash, name);
  KVIST_CHECK(place.found && value != 0, "a value is set for a name that has one");
  place.line->values[place.slot] = value;
}

std::uint64_t NameTable::erase(std::uint64_t name, bool keep_shape) {
  if (empty()) return 0;
  const std::uint64_t hash = spread(name);
  const Lines::Spot spot = lines_.spot(hash);
  const Place place = search(spot.segment, hash, name);
  if (!place.found) return 0;
  const std::uint64_t value = place.line->values[place.slot];
  Lines::close_gap(spot.segment, place.index, place.slot);
  if (size() == 1 && !keep_shape) {
    lines_.clear();
  } else {
    lines_.removed(spot, 1, keep_shape);
  }
  return value;
}

}  // namespace kvist::routing

#include "kvist/routing/name_table.h"

namespace kvist::routing {

NameTable::Place NameTable::search(Lines::Segment segment, std::uint64_t hash, std::uint64_t name) {
  for (std::uint32_t i = segment.home(hash);; i = segment.next(i)) {
    Line& line = segment.lines[i];
    for (std::uint32_t s = 0; s < kSlots; ++s) {
      if (line.values[s] == 0) return {.line = &line, .index = i, .slot = s, .found = false};
      if (line.names[s] == name) return {.line = &line, .index = i, .slot = s, .found = true};
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
  lines_.make_room(hash);
  const Place place = search(lines_.segment(hash), hash, name);
  if (place.found) return place.line->values[place.slot];
  place.line->names[place.slot] = name;
  place.line->values[place.slot] = value;
  lines_.added(hash, true);
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
  const Lines::Segment segment = lines_.segment(hash);
  const Place place = search(segment, hash, name);
  if (!place.found) return 0;
  const std::uint64_t value = place.line->values[place.slot];
  close_gap(segment, place.index, place.slot);
  if (size() == 1 && !keep_shape) {
    lines_.clear();
  } else {
    lines_.removed(hash, true, keep_shape);
  }
  return value;
}

// Entries that had to go on because the line was full come back, so that no search ever has to pass a grave.
void NameTable::close_gap(Lines::Segment segment, std::uint32_t line, std::uint32_t slot) {
  for (;;) {
    Line& gap = segment.lines[line];
    const bool was_full = gap.used(kSlots - 1);
    std::uint32_t last = kSlots - 1;
    while (!gap.used(last)) --last;
    gap.put(slot, gap, last);
    gap.values[last] = 0;
    if (!was_full) return;
    // The first entry behind whose path goes through here, if any before the end of all paths.
    bool moved = false;
    for (std::uint32_t i = segment.next(line), distance = 1; !moved; i = segment.next(i), ++distance) {
      Line& from = segment.lines[i];
      for (std::uint32_t s = 0; s < kSlots && from.used(s); ++s) {
        const std::uint32_t home = segment.home(spread(from.names[s]));
        const std::uint32_t travelled = i >= home ? i - home : i + segment.count - home;
        if (travelled < distance) continue;
        gap.put(kSlots - 1, from, s);
        line = i;
        slot = s;
        moved = true;
        break;
      }
      if (!moved && !from.used(kSlots - 1)) return;
    }
  }
}

}  // namespace kvist::routing

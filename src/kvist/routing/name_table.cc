#include "kvist/routing/name_table.h"

#include "kvist/base/check.h"

namespace kvist::routing {

[[gnu::always_inline]] inline NameTable::Slots::Place NameTable::search(const Slots::Segment& segment,
                                                                        NameDigest name) {
  return Slots::find(segment, name.bits(), [&](const Entry& entry) { return entry.digest == name.bits(); });
}

std::uint64_t NameTable::find(NameDigest name) const {
  if (empty()) return 0;
  const Slots::Place place = search(slots_.segment(name.bits()), name);
  return place.entry != nullptr ? place.entry->value : 0;
}

std::uint64_t NameTable::insert(NameDigest name, std::uint64_t value) {
  const Slots::Spot spot = slots_.spot_with_room(name.bits());
  const auto [place, found] =
      Slots::find_or_place(spot.segment, name.bits(), [&](const Entry& entry) { return entry.digest == name.bits(); });
  if (found) [[unlikely]]
    return place.entry->value;
  *place.entry = {.digest = name.bits(), .value = value};
  slots_.added(spot, name.bits(), place);
  return 0;
}

void NameTable::set(NameDigest name, std::uint64_t value) {
  const Slots::Place place = search(slots_.segment(name.bits()), name);
  KVIST_CHECK(place.entry != nullptr && value != 0, "a value is set for a name that has one");
  place.entry->value = value;
}

std::uint64_t NameTable::erase(NameDigest name, bool keep_shape) {
  if (empty()) return 0;
  const Slots::Spot spot = slots_.spot(name.bits());
  const Slots::Place place = search(spot.segment, name);
  if (place.entry == nullptr) [[unlikely]]
    return 0;
  const std::uint64_t value = place.entry->value;
  if (size() == 1 && !keep_shape) [[unlikely]] {
    slots_.clear();
  } else {
    slots_.remove(spot, name.bits(), place, keep_shape);
  }
  return value;
}

}  // namespace kvist::routing

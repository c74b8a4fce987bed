#include "kvist/routing/name_table.h"

#include "kvist/base/check.h"

namespace kvist::routing {

std::uint64_t NameTable::find(NameDigest name) const {
  if (empty()) return 0;
  const Slots::Place place = search(slots_.segment(name.bits()), name.bits());
  return place.entry != nullptr ? place.entry->value : 0;
}

std::uint64_t NameTable::search_and_insert(const Ahead& name, std::uint64_t value) {
  const Slots::Spot spot = slots_.spot_with_room(name);
  const auto [place, found] =
      slots_.find_or_place(name, spot, [&](const Entry& entry) { return entry.digest == name.hash; });
  if (found) return place.entry->value;
  *place.entry = {.digest = name.hash, .value = value};
  slots_.added(spot, name.hash, place);
  return 0;
}

std::uint64_t NameTable::search_and_erase(const Ahead& name, bool keep_shape) {
  if (empty()) return 0;
  const Slots::Spot spot = slots_.spot(name);
  const Slots::Place place = search(name, spot);
  if (place.entry == nullptr) return 0;
  const std::uint64_t value = place.entry->value;
  if (size() == 1 && !keep_shape) {
    slots_.clear();
  } else {
    slots_.remove(spot, name.hash, place, keep_shape);
  }
  return value;
}

void NameTable::set(const Ahead& name, std::uint64_t value) {
  const Slots::Place place = search(name, slots_.spot(name));
  KVIST_CHECK(place.entry != nullptr && value != 0, "a value is set for a name that has one");
  place.entry->value = value;
}

}  // namespace kvist::routing

#include "kvist/routing/name_table.h"

#include "kvist/base/check.h"

namespace kvist::routing {

std::uint64_t NameTable::find(NameDigest name) const {
  if (empty()) return 0;
  const Slots::Place place = search(slots_.segment(name.bits()), name.bits());
  return place.entry != nullptr ? place.entry->value : 0;
}

void NameTable::set(const Ahead& name, std::uint64_t value) {
  const Slots::Place place = search(name, slots_.spot(name));
  KVIST_CHECK(place.entry != nullptr && value != 0, "a value is set for a name that has one");
  place.entry->value = value;
}

}  // namespace kvist::routing

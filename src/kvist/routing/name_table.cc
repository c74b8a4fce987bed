#include "kvist/routing/name_table.h"

#include "kvist/base/check.h"

namespace kvist::routing {

std::uint32_t NameTable::find(NameDigest name) const {
  if (empty()) return 0;
  const Slots::Segment::Place place = slots_.segment(name.bits()).find(name.bits());
  return place.line != nullptr ? place.line->value(place.slot) : 0;
}

void NameTable::set(const Ahead& name, std::uint32_t value) {
  const Slots::Place place = slots_.find(name);
  KVIST_CHECK(place.line != nullptr && value != 0, "a value is set for a name that has one");
  place.line->set_value(place.slot, value);
}

}  // namespace kvist::routing

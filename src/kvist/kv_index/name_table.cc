#include "kvist/kv_index/name_table.h"

#include "kvist/base/check.h"

namespace kvist::kv_index {

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

std::uint32_t NameTable::insert(const Ahead& name, std::uint32_t value) {
  const std::uint32_t known = find(name);
  if (known == 0) put(name, value);
  return known;
}

std::uint32_t NameTable::erase_elsewhere(const Ahead& name, bool keep_shape) {
  const Slots::Place place = slots_.find(name);
  return place.line != nullptr ? erase(place, name.hash, keep_shape) : 0;
}

}  // namespace kvist::kv_index

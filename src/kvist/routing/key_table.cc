#include "kvist/routing/key_table.h"

#include <algorithm>

namespace kvist::routing {

// Where readers hold too many slots back the segment is made anew: no search becomes long because of them.
[[gnu::noinline]] KeyTable::Place KeyTable::place_beside_readers(std::uint64_t key) {
  constexpr std::uint32_t kFarthest = 8;
  const auto usable = [this](const Entry& entry) {
    const std::uint32_t bits = entry.use.load(std::memory_order_relaxed);
    if ((bits & kEmptied) == 0) return true;
    const std::uint64_t now = epochs_.current();
    return epochs_.passed(now - ((now - bits) & (kEmptied - 1)));
  };
  Place place;
  place.spot_ = slots_.spot(key);
  place.at_ = place.spot_.segment.place_for(key, std::min(place.spot_.segment.count, kFarthest), usable);
  if (place.at_.entry != nullptr) [[likely]]
    return place;
  slots_.make_anew(key);
  place.spot_ = slots_.spot(key);
  place.at_ = place.spot_.segment.place_for(key, place.spot_.segment.count, usable);
  return place;
}

}  // namespace kvist::routing

#include "kvist/routing/key_table.h"

#include <algorithm>

namespace kvist::routing {

// Where readers hold too many slots back the segment is made anew: no search becomes long because of them.
[[gnu::noinline]] KeyTable::Place KeyTable::place_beside_readers(std::uint64_t key) {
  constexpr std::uint32_t kFarthest = 8;
  const auto can_be_used = [this](const Entry& entry) { return usable(entry); };
  Place place;
  place.spot_ = slots_.spot(key);
  place.at_ = place.spot_.segment.place_for(key, std::min(place.spot_.segment.count, kFarthest), can_be_used);
  if (place.at_.entry != nullptr) [[likely]]
    return place;
  slots_.make_anew(key);
  place.spot_ = slots_.spot(key);
  place.at_ = place.spot_.segment.place_for(key, place.spot_.segment.count, can_be_used);
  return place;
}

}  // namespace kvist::routing

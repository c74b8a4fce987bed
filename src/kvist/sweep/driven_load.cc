#include "kvist/sweep/driven_load.h"

#include <cstdint>

namespace kvist::sweep {

loadgen::DrivenLoad driven_load(const std::vector<workload::TurnSample>& turns, TimePoint from, TimePoint to) {
  if (to <= from) return {};
  std::uint64_t events = 0;
  std::uint64_t ended = 0;
  const auto inside = [&](TimePoint at) { return at >= from && at <= to; };
  for (const workload::TurnSample& turn : turns) {
    if (turn.chunks == 0) continue;
    TimePoint at = turn.first_token;
    events += inside(at) ? 1 : 0;
    for (const float gap : turn.gaps_ms) {
      at += from_milliseconds(static_cast<double>(gap));
      events += inside(at) ? 1 : 0;
    }
    ended += inside(turn.ended) ? 1 : 0;
  }
  const double seconds = to_seconds(to - from);
  return {.turns_per_s = static_cast<double>(ended) / seconds, .events_per_s = static_cast<double>(events) / seconds};
}

}  // namespace kvist::sweep

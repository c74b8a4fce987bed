#include "kvist/routing/kv_policy.h"

#include <algorithm>

namespace kvist::routing {
namespace {

double cost_of(const Forecast& forecast) {
  return forecast.ttft_ms + forecast.step_with_ms + forecast.crowding_ms;
}

}  // namespace

std::size_t KvPolicy::choose(const PolicyQuery& /*query*/, std::span<Candidate> candidates) {
  const bool any_slot =
      std::ranges::any_of(candidates, [](const Candidate& candidate) { return candidate.forecast.has_slot; });
  std::size_t chosen = candidates.size();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.cost = cost_of(candidate.forecast);
    if (any_slot && !candidate.forecast.has_slot) continue;
    if (chosen == candidates.size() || candidate.cost < candidates[chosen].cost) chosen = i;
  }
  return chosen;
}

}  // namespace kvist::routing

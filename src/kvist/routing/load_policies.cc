#include "kvist/routing/load_policies.h"

#include <algorithm>

#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

// Index of the candidate whose turn it is after `last`: the next higher number, from the lowest again after the
// highest.
std::size_t first_after(std::optional<WorkerId> last, std::span<const Candidate> candidates) {
  if (!last) return 0;
  const auto next = std::ranges::upper_bound(candidates, *last, {}, &Candidate::worker);
  return next == candidates.end() ? 0 : static_cast<std::size_t>(next - candidates.begin());
}

}  // namespace

std::size_t RoundRobinPolicy::choose(const PolicyQuery& /*query*/, std::span<Candidate> candidates) {
  const std::size_t chosen = first_after(last_, candidates);
  for (std::size_t turns = 0; turns < candidates.size(); ++turns) {
    candidates[(chosen + turns) % candidates.size()].cost = static_cast<double>(turns);
  }
  last_ = candidates[chosen].worker;
  return chosen;
}

std::size_t RandomPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  for (Candidate& candidate : candidates) candidate.cost = 0;
  RandomStream random(mix_seed({seed_, seed_part("random routing"), query.request.value()}));
  return static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(candidates.size()) - 1));
}

std::size_t LeastLoadedPolicy::choose(const PolicyQuery& /*query*/, std::span<Candidate> candidates) {
  for (Candidate& candidate : candidates) candidate.cost = candidate.load.requests;
  const std::size_t first = first_after(last_, candidates);
  std::size_t chosen = first;
  for (std::size_t turns = 1; turns < candidates.size(); ++turns) {
    const std::size_t i = (first + turns) % candidates.size();
    if (candidates[i].load.requests < candidates[chosen].load.requests) chosen = i;
  }
  last_ = candidates[chosen].worker;
  return chosen;
}

}  // namespace kvist::routing

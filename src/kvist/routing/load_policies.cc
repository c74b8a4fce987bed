#include "kvist/routing/load_policies.h"

#include <algorithm>
#include <limits>

#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

// Index of the candidate whose turn comes after `last`: the next higher id, and after the highest the lowest.
std::size_t first_after(const LastTurn& last, std::span<const Candidate> candidates) {
  if (!last.worker()) return 0;
  const auto next = std::ranges::upper_bound(candidates, *last.worker(), {}, &Candidate::worker);
  return next == candidates.end() ? 0 : static_cast<std::size_t>(next - candidates.begin());
}

}  // namespace

void LastTurn::set_number(std::uint64_t number) {
  worker_.reset();
  if (number > 0) {
    worker_ = WorkerId(
        static_cast<std::uint32_t>(std::min<std::uint64_t>(number - 1, std::numeric_limits<std::uint32_t>::max())));
  }
}

std::size_t RoundRobinPolicy::choose(const PolicyQuery& /*query*/, std::span<Candidate> candidates) {
  const std::size_t chosen = first_after(last_, candidates);
  for (std::size_t turns = 0; turns < candidates.size(); ++turns) {
    candidates[(chosen + turns) % candidates.size()].cost = static_cast<double>(turns);
  }
  last_.set(candidates[chosen].worker);
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
  last_.set(candidates[chosen].worker);
  return chosen;
}

std::size_t PowerOfTwoPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  const auto last = static_cast<std::int64_t>(candidates.size()) - 1;
  RandomStream random(mix_seed({seed_, seed_part("power of two"), query.request.value()}));
  const auto first = static_cast<std::size_t>(random.uniform_int(0, last));
  auto second = first;
  if (last > 0) {
    second = static_cast<std::size_t>(random.uniform_int(0, last - 1));
    if (second >= first) ++second;  // uniform over all others
  }
  for (Candidate& candidate : candidates) candidate.cost = std::numeric_limits<double>::infinity();
  for (const std::size_t drawn : {first, second}) candidates[drawn].cost = candidates[drawn].load.requests;
  return candidates[second].cost < candidates[first].cost ? second : first;
}

}  // namespace kvist::routing

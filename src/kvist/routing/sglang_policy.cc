#include "kvist/routing/sglang_policy.h"

#include <algorithm>

namespace kvist::routing {

std::size_t SglangPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  std::size_t idlest = 0;
  std::size_t deepest = 0;
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const Candidate& best = candidates[deepest];
    most = std::max(most, candidate.load.requests);
    if (candidate.load.requests < candidates[idlest].load.requests) idlest = i;
    if (candidate.cached_tokens > best.cached_tokens ||
        (candidate.cached_tokens == best.cached_tokens && candidate.load.requests < best.load.requests)) {
      deepest = i;
    }
  }
  const std::uint32_t least = candidates[idlest].load.requests;
  const bool imbalanced = most - least > options_.balance_abs_threshold &&
                          most > options_.balance_rel_threshold * static_cast<double>(least);
  const bool cached = candidates[deepest].cached_tokens > options_.cache_threshold * query.prompt_tokens;
  const bool by_cache = cached && !imbalanced;
  for (Candidate& candidate : candidates) {
    candidate.cost = by_cache ? query.prompt_tokens - candidate.cached_tokens : candidate.load.requests;
  }
  return by_cache ? deepest : idlest;
}

}  // namespace kvist::routing

#include "kvist/routing/published_policies.h"

#include <algorithm>
#include <cmath>

#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

double credit_decay(const DynamoCostInputs& in, double decay) {
  if (decay == 0 || in.prompt_tokens == 0) return 1;
  const double block_size = in.block_size;
  const double excess_blocks =
      static_cast<double>(in.active_prefill_tokens - in.min_active_prefill_tokens) / block_size;
  const double prompt_blocks = std::ceil(static_cast<double>(in.prompt_tokens) / block_size);
  return 1 / (1 + decay * excess_blocks / prompt_blocks);
}

}  // namespace

double dynamo_cost(const DynamoCostInputs& in, const DynamoCostOptions& options) {
  const double prefill =
      static_cast<double>(in.active_prefill_tokens + in.prompt_tokens) / static_cast<double>(in.block_size);
  const double credit =
      options.overlap_score_credit * credit_decay(in, options.overlap_score_credit_decay) * in.overlap_blocks;
  const double decode = static_cast<double>(in.active_blocks + in.new_blocks);
  return options.prefill_load_scale * std::max(0.0, prefill - credit) + decode +
         options.decode_active_request_weight * in.active_requests;
}

std::size_t DynamoPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  std::uint64_t min_prefill = candidates.front().load.prefill_tokens;
  for (const Candidate& candidate : candidates) min_prefill = std::min(min_prefill, candidate.load.prefill_tokens);

  RandomStream random(mix_seed({seed_, seed_part("dynamo ties"), query.request.value()}));
  std::size_t chosen = 0;
  std::int64_t ties = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    candidate.cost = dynamo_cost({.prompt_tokens = query.prompt_tokens,
                                  .block_size = query.block_size,
                                  .active_prefill_tokens = candidate.load.prefill_tokens,
                                  .min_active_prefill_tokens = min_prefill,
                                  .overlap_blocks = candidate.cached_blocks,
                                  .active_blocks = candidate.load.prompt_blocks,
                                  .new_blocks = candidate.new_blocks,
                                  .active_requests = candidate.load.requests},
                                 options_);
    if (i == 0 || candidate.cost < candidates[chosen].cost) {
      chosen = i;
      ties = 1;
    } else if (candidate.cost == candidates[chosen].cost && random.uniform_int(0, ties++) == 0) {
      chosen = i;  // reservoir sampling: the n-th of equal candidates replaces the others with probability 1/n
    }
  }
  return chosen;
}

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

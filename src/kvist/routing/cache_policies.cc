#include "kvist/routing/cache_policies.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "kvist/base/random.h"

namespace kvist::routing {
namespace {

std::size_t index_of(std::span<const Candidate> candidates, const Candidate& candidate) {
  return static_cast<std::size_t>(&candidate - candidates.data());
}

/// The first of the candidates of least cost, which has the lowest id.
std::size_t cheapest(std::span<const Candidate> candidates) {
  return index_of(candidates, *std::ranges::min_element(candidates, {}, &Candidate::cost));
}

std::size_t least_loaded(std::span<const Candidate> candidates) {
  return index_of(candidates,
                  *std::ranges::min_element(candidates, {}, [](const Candidate& c) { return c.load.requests; }));
}

/// The worker that caches most of the prompt; among equals the less loaded.
std::size_t deepest(std::span<const Candidate> candidates) {
  return index_of(candidates, *std::ranges::min_element(candidates, {}, [](const Candidate& c) {
                    return std::pair(-static_cast<std::int64_t>(c.cached_tokens), c.load.requests);
                  }));
}

std::uint32_t uncached_tokens(const PolicyQuery& query, const Candidate& candidate) {
  return query.prompt_tokens - std::min(query.prompt_tokens, candidate.cached_tokens);
}

/// Tokens that the worker has to prefill with this request.
double prefill_tokens(const PolicyQuery& query, const Candidate& candidate) {
  return static_cast<double>(candidate.load.prefill_tokens) + uncached_tokens(query, candidate);
}

double lmetric(const PolicyQuery& query, const Candidate& candidate) {
  return prefill_tokens(query, candidate) * candidate.load.requests;
}

std::uint32_t waiting(const Candidate& candidate) {
  return candidate.load.requests - std::min(candidate.load.requests, candidate.load.decoding);
}

double memory_in_use(const Candidate& candidate, std::uint32_t block_size) {
  if (candidate.limits.kv_blocks == 0) return 0;
  const double blocks = static_cast<double>(candidate.load.prompt_blocks) +
                        static_cast<double>(candidate.load.output_tokens) / std::max(1U, block_size);
  return std::min(1.0, blocks / candidate.limits.kv_blocks);
}

}  // namespace

std::size_t MostCachedPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  for (Candidate& candidate : candidates) candidate.cost = uncached_tokens(query, candidate);
  return deepest(candidates);
}

std::size_t SmgPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  double mean = 0;
  for (const Candidate& candidate : candidates) mean += candidate.load.requests;
  mean /= static_cast<double>(candidates.size());
  const std::size_t home = deepest(candidates);
  const double load = candidates[home].load.requests;
  const bool cached = candidates[home].cached_tokens > options_.cache_threshold * query.prompt_tokens;
  const bool overloaded = load > mean + options_.balance_abs_threshold && load > options_.balance_rel_threshold * mean;
  const bool by_cache = cached && !overloaded;
  for (Candidate& candidate : candidates) {
    candidate.cost = by_cache ? uncached_tokens(query, candidate) : candidate.load.requests;
  }
  return by_cache ? home : least_loaded(candidates);
}

std::size_t LlmDPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t most = 0;
  for (const Candidate& candidate : candidates) {
    least = std::min(least, waiting(candidate));
    most = std::max(most, waiting(candidate));
  }
  RandomStream random(mix_seed({seed_, seed_part("llm-d ties"), query.request.value()}));
  std::size_t chosen = 0;
  std::int64_t ties = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Candidate& candidate = candidates[i];
    const double queue = most == least ? 1 : static_cast<double>(most - waiting(candidate)) / (most - least);
    const double memory = 1 - memory_in_use(candidate, query.block_size);
    const double prefix = static_cast<double>(candidate.cached_tokens) / std::max(1U, query.prompt_tokens);
    candidate.cost =
        -(options_.queue * queue + options_.kv_cache_utilization * memory + options_.prefix_cache * prefix);
    if (i == 0 || candidate.cost < candidates[chosen].cost) {
      chosen = i;
      ties = 1;
    } else if (candidate.cost == candidates[chosen].cost && random.uniform_int(0, ties++) == 0) {
      chosen = i;  // reservoir sampling: the n-th of equals replaces with probability 1/n
    }
  }
  return chosen;
}

std::size_t LmetricPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  for (Candidate& candidate : candidates) candidate.cost = lmetric(query, candidate);
  return index_of(candidates, *std::ranges::min_element(candidates, {}, [&](const Candidate& candidate) {
                    return std::pair(candidate.cost, prefill_tokens(query, candidate));
                  }));
}

std::size_t SmetricPolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  const double limit_ms = options_.ttft_limit_ms + options_.ttft_limit_ms_per_token * query.prompt_tokens;
  const auto in_time = [&](const Candidate& candidate) {
    return candidate.forecast.queue_ms + candidate.forecast.prefill_ms <= limit_ms;
  };
  for (Candidate& candidate : candidates) candidate.cost = lmetric(query, candidate);
  const std::size_t home =
      index_of(candidates, *std::ranges::min_element(candidates, {}, [&](const Candidate& c) {
                 return std::pair(-static_cast<std::int64_t>(c.cached_tokens), prefill_tokens(query, c));
               }));
  const bool held = candidates[home].cached_tokens > options_.hit_ratio * query.prompt_tokens;
  if (held && (in_time(candidates[home]) || std::ranges::none_of(candidates, in_time))) {
    candidates[home].cost = 0;
    return home;
  }
  const double least = candidates[cheapest(candidates)].cost;
  const auto equal = std::ranges::count(candidates, least, &Candidate::cost);
  auto skipped = static_cast<std::int64_t>(turn_++ % static_cast<std::uint64_t>(equal));
  return index_of(candidates, *std::ranges::find_if(candidates, [&](const Candidate& candidate) {
                    return candidate.cost == least && skipped-- == 0;
                  }));
}

std::size_t PreblePolicy::choose(const PolicyQuery& query, std::span<Candidate> candidates) {
  std::uint32_t most_cached = 0;
  for (Candidate& candidate : candidates) {
    const Forecast& forecast = candidate.forecast;
    const double step_share_ms = std::max(0.0, forecast.step_with_ms - forecast.step_ms);
    const double decode_ms = forecast.mean_requests * forecast.answer_tokens * step_share_ms;
    candidate.cost = forecast.queue_ms + decode_ms + forecast.displaced_ms + forecast.prefill_ms;
    most_cached = std::max(most_cached, candidate.cached_tokens);
  }
  const bool exploits = most_cached > query.prompt_tokens - std::min(query.prompt_tokens, most_cached);
  const auto preference = [&](const Candidate& candidate) {
    return std::pair(exploits && candidate.cached_tokens < most_cached, candidate.cost);
  };
  return index_of(candidates, *std::ranges::min_element(candidates, {}, preference));
}

}  // namespace kvist::routing

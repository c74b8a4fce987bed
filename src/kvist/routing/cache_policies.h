// Further published policies that look at caches, each by its formula and with its defaults: baselines. All see caches
// and loads as the router knows them; each class says what this replaces. Threads: the router's, as of every
// RoutingPolicy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/routing/policy.h"
#include "kvist/routing/published_policies.h"

namespace kvist::routing {

/// vLLM's router, kv_aware: the worker with the most cached blocks of the prompt. If no worker caches any, and among
/// equals, the one with the fewest requests in flight wins, then the lowest id (the router itself takes whichever of
/// those with equally many blocks it looked at last, so that on a shared prefix all go to one). Cost: blocks that are
/// not cached.
class MostCachedPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
};

/// smg's cache_aware since it judges each request by itself; SglangPolicy is its older form and has the same
/// thresholds. It takes the worker that caches most of the prompt if that is more than cache_threshold of it, among
/// equals the less loaded. It takes the least loaded worker instead if the caching one's requests in flight exceed both
/// the fleet's mean + balance_abs_threshold and balance_rel_threshold times the mean. Cost: as of SglangPolicy.
class SmgPolicy final : public RoutingPolicy {
 public:
  explicit SmgPolicy(SglangOptions options) : options_(options) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  SglangOptions options_;
};

/// Weights of llm-d's default mix of scorers.
struct LlmDOptions {
  double queue = 1;
  double kv_cache_utilization = 1;
  double prefix_cache = 2;
};

/// llm-d's scheduler: the highest weighted sum of three scores between 0 and 1 (max-score-picker, ties at random):
///   queue  = (most - waiting) / (most - least waiting), over the workers; 1 where all are equal
///   kv     = 1 - share of the KV memory in use
///   prefix = share of the prompt that is cached
/// llm-d reads queue and KV memory from the engines' metrics, some time old; here the queue is the requests without a
/// first token and the memory in use is the prompt blocks and answers of the requests in flight, both without delay.
/// Cost: the negative sum.
class LlmDPolicy final : public RoutingPolicy {
 public:
  LlmDPolicy(LlmDOptions options, std::uint64_t seed) : options_(options), seed_(seed) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  LlmDOptions options_;
  std::uint64_t seed_;
};

/// LMetric (Zhang et al., 2026): the least product of the tokens that the worker has to prefill, including those of
/// this request, and its requests in flight. All idle workers have 0; among equals the one with the fewest tokens to
/// compute wins. Cost: the product.
class LmetricPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
};

/// Settings with the names and defaults of vLLM's router.
struct SmetricOptions {
  double hit_ratio = 0.5;        ///< of the prompt that the session's worker must still cache
  double ttft_limit_ms = 1'000;  ///< fixed part of the limit
  double ttft_limit_ms_per_token = 62.5e-3;
};

/// SMetric (vLLM's router): a session stays with the worker that caches most of its prompt, while that is more than
/// hit_ratio of it and the first token would come within the limit there, or nowhere. Otherwise LMetric's product
/// decides, and equals take turns. SMetric compares with the history, which is the prompt up to the latest answer, and
/// measures prefill rates by itself; here the whole prompt and the router's forecast take their place. Cost: 0 for a
/// worker that a session stays with, otherwise the product.
class SmetricPolicy final : public RoutingPolicy {
 public:
  explicit SmetricPolicy(SmetricOptions options) : options_(options) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override { return turn_; }
  void set_state(std::uint64_t state) override { turn_ = state; }

 private:
  SmetricOptions options_;
  std::uint64_t turn_ = 0;
};

/// Preble's E2 (Srivatsa et al., 2024). If some worker caches more than half of the prompt, only the workers that cache
/// most of it are considered (exploitation), otherwise all (exploration). The one of the least load cost wins: cost =
/// computing time of the worker's requests + computing again what it evicts + its own prefill, in milliseconds
/// Preble sums the requests of the last three minutes by profiled times, and weighs what is evicted by how often it was
/// hit; here the forecast's terms are summed: the wait behind other prompts, for each request of the last half minute
/// an answer's share of the steps, and the prefill of those displaced prefixes that were used again lately.
class PreblePolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
};

}  // namespace kvist::routing

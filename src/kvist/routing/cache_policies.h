// Further published policies that look at caches, each by its formula and with its defaults: baselines. All see the
// caches and the loads by the router's own knowledge; what that replaces is said at each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvist/routing/policy.h"
#include "kvist/routing/published_policies.h"

namespace kvist::routing {

/// vLLM's router, kv_aware: the worker with the most cached blocks of the prompt; where none caches any, and of equals,
/// the fewest requests in flight, then the lowest number. Cost: blocks that are not cached.
class MostCachedPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
};

/// smg's cache_aware, with the thresholds of SGLang's, since it asks request by request (SglangPolicy is what it was
/// before): the worker that caches most of the prompt, where that is more than cache_threshold of it; of equals the
/// less loaded. It is left for the least loaded one where its requests in flight are both more than the fleet's mean +
/// balance_abs_threshold and more than balance_rel_threshold times the mean. Cost: as of SglangPolicy.
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
/// llm-d reads queue and KV memory from the engines' metrics, some time old; here requests without a first token are
/// the queue, and the prompt blocks and answers of the requests in flight the memory, both at once. Cost: the negative
/// sum.
class LlmDPolicy final : public RoutingPolicy {
 public:
  LlmDPolicy(LlmDOptions options, std::uint64_t seed) : options_(options), seed_(seed) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  LlmDOptions options_;
  std::uint64_t seed_;
};

/// LMetric (Zhang et al., 2026): the least product of the tokens the worker has to prefill, those of this request
/// included, and of its requests in flight. Idle workers all have 0: of equals the fewest tokens. Cost: the product.
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
/// hit_ratio of it and the first token would come within the limit there, or nowhere. Else LMetric's product, of equals
/// each in turn. SMetric compares with the history, that is the prompt up to the latest answer, and measures prefill
/// rates by itself; here the whole prompt and the router's forecast take their place. Cost: 0 for a worker that is
/// stayed with, else the product.
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

/// Preble's E2 (Srivatsa et al., 2024): a prompt of which some worker caches more than it lacks goes to a worker that
/// caches most of it (exploitation), any other one wherever the load cost is least (exploration), of the first too:
///   cost = computing time of the worker's requests + its own prefill, in milliseconds
/// Preble sums the requests of the last three minutes by profiled times, and adds what is evicted, weighed by how often
/// it was hit; here the forecast's terms are summed: the wait behind other prompts, and for each request of the last
/// half minute an answer's share of the steps. What is evicted is not known to the router.
class PreblePolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
};

}  // namespace kvist::routing

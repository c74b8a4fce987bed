// The published policies that look at caches, kept exactly so that they can serve as baselines: NVIDIA Dynamo's cost
// and SGLang's thresholds. Threads: the router's, as of every RoutingPolicy.
#pragma once

#include <cstdint>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Settings of the cost with Dynamo's names and defaults.
struct DynamoCostOptions {
  double overlap_score_credit = 1.0;  ///< value of one cached block
  double overlap_score_credit_decay =
      0.0;                          ///< how fast the credit falls with the worker's prefill backlog; 0: it does not
  double prefill_load_scale = 1.0;  ///< weight of the prefill term against the decode term
  double decode_active_request_weight = 0.0;  ///< blocks per request in flight
};

/// Inputs of the cost for one worker.
struct DynamoCostInputs {
  std::uint64_t prompt_tokens = 0;
  std::uint32_t block_size = 0;
  std::uint64_t active_prefill_tokens = 0;      ///< uncached prompt tokens in progress on this worker
  std::uint64_t min_active_prefill_tokens = 0;  ///< the least active_prefill_tokens of the candidates
  std::uint32_t overlap_blocks = 0;             ///< leading prompt blocks in the worker's cache
  std::uint64_t active_blocks = 0;              ///< distinct prompt blocks in use on the worker
  std::uint32_t new_blocks = 0;                 ///< the request's blocks that are not among them
  std::uint32_t active_requests = 0;
};

/// In blocks:
///   prefill = (active_prefill_tokens + prompt_tokens) / block_size
///   decay   = 1 / (1 + credit_decay * (active_prefill_tokens - min) / block_size / ceil(prompt_tokens / block_size))
///   credit  = overlap_score_credit * decay * overlap_blocks
///   decode  = active_blocks + new_blocks
///   cost    = prefill_load_scale * max(0, prefill - credit) + decode + decode_active_request_weight * active_requests
/// Dynamo's terms for host, disk and shared caches are zero here: the index holds device blocks only.
[[nodiscard]] double dynamo_cost(const DynamoCostInputs& inputs, const DynamoCostOptions& options);

/// The lowest dynamo_cost(); exact ties are broken uniformly, keyed by seed and request (Dynamo's temperature 0).
class DynamoPolicy final : public RoutingPolicy {
 public:
  DynamoPolicy(DynamoCostOptions options, std::uint64_t seed) : options_(options), seed_(seed) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  DynamoCostOptions options_;
  std::uint64_t seed_;
};

/// Settings with SGLang's names and the defaults of its gateway's command line, which smg and vLLM's router share. The
/// defaults in their libraries are different: 0.5, 32, 1.1.
struct SglangOptions {
  double cache_threshold = 0.3;              ///< share of the prompt that must be cached for the cache to decide
  std::uint32_t balance_abs_threshold = 64;  ///< requests
  double balance_rel_threshold = 1.5;
};

/// Balance comes first: if the most and the least requests in flight of a worker satisfy most - least >
/// balance_abs_threshold and most > balance_rel_threshold x least, the least loaded worker is chosen. Otherwise the
/// worker that caches most of the prompt is chosen if that is more than cache_threshold of it, among equals the less
/// loaded; otherwise the least loaded worker. Remaining ties go to the lowest id. SGLang estimates the caches by a tree
/// of the prompts that it routed. Here the router's better knowledge is used instead, so that the policies differ in
/// nothing but the choice. Cost: requests in flight, or uncached prompt tokens if the cache decides.
class SglangPolicy final : public RoutingPolicy {
 public:
  explicit SglangPolicy(SglangOptions options) : options_(options) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  SglangOptions options_;
};

}  // namespace kvist::routing

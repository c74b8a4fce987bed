// SGLang's cache-aware thresholds, kept as a baseline.
#pragma once

#include <cstdint>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Settings with SGLang's names and the defaults of its gateway's command line, which smg and vLLM's router have too
/// (their libraries' own defaults are others: 0.5, 32, 1.1).
struct SglangOptions {
  double cache_threshold = 0.3;              ///< share of the prompt that must be cached for the cache to decide
  std::uint32_t balance_abs_threshold = 64;  ///< requests
  double balance_rel_threshold = 1.5;
};

/// Balance first: where most - least > balance_abs_threshold and most > balance_rel_threshold x least requests in
/// flight, the least loaded worker. Else the worker that caches most of the prompt, where that is more than
/// cache_threshold of it; of equals the less loaded. Else the least loaded worker. Equals go to the lowest number.
/// SGLang estimates the caches by a tree of what it routed; here the router's better knowledge takes its place, so that
/// the policies differ in nothing but the choice. Cost: requests in flight, or uncached prompt tokens where the cache
/// decides.
class SglangPolicy final : public RoutingPolicy {
 public:
  explicit SglangPolicy(SglangOptions options) : options_(options) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  SglangOptions options_;
};

}  // namespace kvist::routing

#include "kvist/routing/policy.h"

#include <algorithm>

#include "kvist/routing/affinity_policies.h"
#include "kvist/routing/cache_policies.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/load_policies.h"
#include "kvist/routing/published_policies.h"

namespace kvist::routing {

std::size_t position_of(std::span<const Candidate> candidates, WorkerId worker) {
  // Usually every worker is a candidate, and then each is at the index of its own id.
  if (worker.value() < candidates.size() && candidates[worker.value()].worker == worker) return worker.value();
  const auto found = std::ranges::lower_bound(candidates, worker, {}, &Candidate::worker);
  return found != candidates.end() && found->worker == worker ? static_cast<std::size_t>(found - candidates.begin())
                                                              : candidates.size();
}

std::unique_ptr<RoutingPolicy> make_policy(spec::RoutingMode mode, std::uint64_t seed) {
  switch (mode) {
    case spec::RoutingMode::kRoundRobin:
      return std::make_unique<RoundRobinPolicy>();
    case spec::RoutingMode::kRandom:
      return std::make_unique<RandomPolicy>(seed);
    case spec::RoutingMode::kLeastLoaded:
      return std::make_unique<LeastLoadedPolicy>();
    case spec::RoutingMode::kKv:
    case spec::RoutingMode::kClairvoyant:  // whose forecasts the simulation makes (ForecastSource)
      return std::make_unique<KvPolicy>();
    case spec::RoutingMode::kDynamo:
      return std::make_unique<DynamoPolicy>(DynamoCostOptions{}, seed);
    case spec::RoutingMode::kPowerOfTwo:
      return std::make_unique<PowerOfTwoPolicy>(seed);
    case spec::RoutingMode::kSglang:
      return std::make_unique<SglangPolicy>(SglangOptions{});
    case spec::RoutingMode::kBoundedHash:
      return std::make_unique<BoundedHashPolicy>(BoundedHashOptions{});
    case spec::RoutingMode::kSession:
      return std::make_unique<SessionPolicy>();
    case spec::RoutingMode::kVllmKvAware:
      return std::make_unique<MostCachedPolicy>();
    case spec::RoutingMode::kSmg:
      return std::make_unique<SmgPolicy>(SglangOptions{});
    case spec::RoutingMode::kLlmD:
      return std::make_unique<LlmDPolicy>(LlmDOptions{}, seed);
    case spec::RoutingMode::kLmetric:
      return std::make_unique<LmetricPolicy>();
    case spec::RoutingMode::kSmetric:
      return std::make_unique<SmetricPolicy>(SmetricOptions{});
    case spec::RoutingMode::kPreble:
      return std::make_unique<PreblePolicy>();
  }
  return std::make_unique<RoundRobinPolicy>();
}

bool uses_seed(spec::RoutingMode mode) {
  using enum spec::RoutingMode;
  return mode == kRandom || mode == kDynamo || mode == kPowerOfTwo || mode == kLlmD;
}

}  // namespace kvist::routing

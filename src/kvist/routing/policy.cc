#include "kvist/routing/policy.h"

#include "kvist/routing/dynamo_policy.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/load_policies.h"

namespace kvist::routing {

std::unique_ptr<RoutingPolicy> make_policy(spec::RoutingMode mode, std::uint64_t seed) {
  switch (mode) {
    case spec::RoutingMode::kRoundRobin:
      return std::make_unique<RoundRobinPolicy>();
    case spec::RoutingMode::kRandom:
      return std::make_unique<RandomPolicy>(seed);
    case spec::RoutingMode::kLeastLoaded:
      return std::make_unique<LeastLoadedPolicy>();
    case spec::RoutingMode::kKv:
      return std::make_unique<KvPolicy>();
    case spec::RoutingMode::kDynamo:
      return std::make_unique<DynamoPolicy>(DynamoCostOptions{}, seed);
  }
  return std::make_unique<RoundRobinPolicy>();
}

}  // namespace kvist::routing

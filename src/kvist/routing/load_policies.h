// The policies that know nothing of caches: round robin, random, least loaded.
#pragma once

#include <optional>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Each worker in turn, by number. Turns are kept by worker, not by position among the candidates: a worker that comes
/// and goes does not shift the others' turns. Cost: how many turns before the worker's own.
class RoundRobinPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  std::optional<WorkerId> last_;
};

/// Uniform, keyed by seed and request: the same request on the same candidates gives the same worker. Costs are 0.
class RandomPolicy final : public RoutingPolicy {
 public:
  explicit RandomPolicy(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  std::uint64_t seed_;
};

/// Fewest requests in flight. Among equals each in turn: the lowest number would send a quiet system's whole work to
/// the first worker. Cost: requests in flight.
class LeastLoadedPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  std::optional<WorkerId> last_;
};

}  // namespace kvist::routing

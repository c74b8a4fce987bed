// The policies that ignore caches: round robin, random, least loaded, power of two choices. Threads: the router's, as
// of every RoutingPolicy.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// The worker that had the last turn. As a number it is 0 for none, otherwise the worker's id plus 1.
class LastTurn {
 public:
  [[nodiscard]] std::optional<WorkerId> worker() const { return worker_; }
  void set(WorkerId worker) { worker_ = worker; }
  [[nodiscard]] std::uint64_t number() const { return worker_ ? std::uint64_t{worker_->value()} + 1 : 0; }
  /// Accepts any number. One beyond all workers means that the lowest id is next.
  void set_number(std::uint64_t number);

 private:
  std::optional<WorkerId> worker_;
};

/// Each worker in turn, by id. The last turn is kept as a worker, not as a position among the candidates, so that a
/// worker that comes or goes does not shift the turns of the others. Cost: the number of turns before the worker's own.
class RoundRobinPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override { return last_.number(); }
  void set_state(std::uint64_t state) override { last_.set_number(state); }

 private:
  LastTurn last_;
};

/// Uniform, keyed by seed and request, so that the same request and candidates give the same worker. Cost: 0.
class RandomPolicy final : public RoutingPolicy {
 public:
  explicit RandomPolicy(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  std::uint64_t seed_;
};

/// The worker with the fewest requests in flight. Equals take turns, because with the lowest id instead, the first
/// worker would get all requests of an idle fleet. Cost: requests in flight.
class LeastLoadedPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override { return last_.number(); }
  void set_state(std::uint64_t state) override { last_.set_number(state); }

 private:
  LastTurn last_;
};

/// Draws two distinct workers, keyed by seed and request, and takes the one with fewer requests in flight, or the first
/// drawn if they are equal (Mitzenmacher, 2001; smg's power_of_two). Cost: requests in flight; infinite for workers
/// that were not drawn.
class PowerOfTwoPolicy final : public RoutingPolicy {
 public:
  explicit PowerOfTwoPolicy(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  std::uint64_t seed_;
};

}  // namespace kvist::routing

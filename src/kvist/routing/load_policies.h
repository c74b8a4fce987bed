// The policies that know nothing of caches: round robin, random, least loaded, power of two choices.
#pragma once

#include <cstdint>
#include <optional>

#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Who had the last turn. As a number: 0 for nobody, else the worker's own and 1.
class LastTurn {
 public:
  [[nodiscard]] std::optional<WorkerId> worker() const { return worker_; }
  void set(WorkerId worker) { worker_ = worker; }
  [[nodiscard]] std::uint64_t number() const { return worker_ ? std::uint64_t{worker_->value()} + 1 : 0; }
  /// Any number is taken: one beyond all workers means that the lowest is next.
  void set_number(std::uint64_t number);

 private:
  std::optional<WorkerId> worker_;
};

/// Each worker in turn, by number. Turns are kept by worker, not by position among the candidates: a worker that comes
/// and goes does not shift the others' turns. Cost: how many turns before the worker's own.
class RoundRobinPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override { return last_.number(); }
  void set_state(std::uint64_t state) override { last_.set_number(state); }

 private:
  LastTurn last_;
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
  [[nodiscard]] std::uint64_t state() const override { return last_.number(); }
  void set_state(std::uint64_t state) override { last_.set_number(state); }

 private:
  LastTurn last_;
};

/// Two distinct workers at random, keyed by seed and request; of these the one with fewer requests in flight, of equals
/// the first drawn (Mitzenmacher, 2001; smg's power_of_two). Cost: requests in flight; infinite for those not drawn.
class PowerOfTwoPolicy final : public RoutingPolicy {
 public:
  explicit PowerOfTwoPolicy(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  std::uint64_t seed_;
};

}  // namespace kvist::routing

// Baseline policies that send related requests to one worker by hashing, without knowing what its cache holds:
// consistent hashing with bounded loads, and session affinity. Threads: the router's, as of every RoutingPolicy.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/routing/load_policies.h"
#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Each worker has `points_per_worker` points on a ring of 64-bit numbers; a key belongs to the worker of the first
/// point at or after the key's own hash (Karger et al., 1997). Points depend on the worker's id alone, so gateways
/// that number their workers alike have the same ring. Memory: 16 bytes per point. Threads: one.
class HashRing {
 public:
  explicit HashRing(std::uint32_t points_per_worker) : points_per_worker_(points_per_worker) {}

  /// Puts the workers 0 .. `workers` - 1 on the ring. Points that are on it already do not move.
  void cover(std::uint32_t workers);

  /// The first worker at or after the key's place that `accepts`, once around the ring; nothing if none does.
  template <std::predicate<WorkerId> Accepts>
  [[nodiscard]] std::optional<WorkerId> first(std::uint64_t key, Accepts accepts) const {
    const std::size_t begin = place_of(key);
    for (std::size_t step = 0; step < points_.size(); ++step) {
      const std::size_t at = begin + step < points_.size() ? begin + step : begin + step - points_.size();
      if (accepts(points_[at].worker)) return points_[at].worker;
    }
    return std::nullopt;
  }

 private:
  struct Point {
    std::uint64_t at = 0;
    WorkerId worker;
  };
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const;

  std::uint32_t points_per_worker_;
  std::uint32_t workers_ = 0;
  std::vector<Point> points_;  // ascending
};

/// Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2016), as in KubeAI's PrefixHash: the first
/// worker at or after the key's place on the ring whose load, including this request, is at most load_factor times the
/// mean; if there is none, the first worker. KubeAI's key is the beginning of the first user message, 100 characters. A
/// router that has block hashes takes the first tokens instead, 256 of them, as smg's prefix_hash does.
struct BoundedHashOptions {
  double load_factor = 1.25;              ///< KubeAI: meanLoadFactor 125 %
  std::uint32_t points_per_worker = 256;  ///< KubeAI: replication
  std::uint32_t prefix_tokens = 256;      ///< smg: prefix_hash
};

/// A prompt shorter than a block has no block hash and takes key 0. Cost: 0 for the chosen worker, 1 for others within
/// the bound, infinite for those above it.
class BoundedHashPolicy final : public RoutingPolicy {
 public:
  explicit BoundedHashPolicy(BoundedHashOptions options) : options_(options), ring_(options.points_per_worker) {}
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;

 private:
  BoundedHashOptions options_;
  HashRing ring_;
};

/// Sends every request of a session to the session's worker on the ring, whatever its load: production-stack's session
/// routing, smg's consistent_hashing (its 150 points per worker). While that worker is unavailable, the next one on the
/// ring takes its sessions; they return when it does. Requests without a session go to the least loaded worker. Cost: 0
/// for the session's worker, 1 for the others; without a session that of LeastLoadedPolicy.
class SessionPolicy final : public RoutingPolicy {
 public:
  [[nodiscard]] std::size_t choose(const PolicyQuery& query, std::span<Candidate> candidates) override;
  [[nodiscard]] std::uint64_t state() const override { return without_session_.state(); }
  void set_state(std::uint64_t state) override { without_session_.set_state(state); }

 private:
  static constexpr std::uint32_t kPointsPerWorker = 150;
  HashRing ring_{kPointsPerWorker};
  LeastLoadedPolicy without_session_;
};

}  // namespace kvist::routing

// Mode kv in a large fleet: the same choice, without a forecast for each worker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/cost_floor.h"
#include "kvist/routing/cost_lanes.h"
#include "kvist/routing/forecaster.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/policy.h"
#include "kvist/routing/usable_worker.h"
#include "kvist/routing/usable_workers.h"

namespace kvist::routing {

/// Bounds the cost of every worker that may take the request from below, all at once and roughly (CostFloor). In the
/// order of these bounds workers get a closer bound, and candidates with exact forecasts are made in the order of
/// those, until no further worker can be among the cheapest that the record of the decision keeps or among those that
/// may win a tie. In the worst case every worker gets a forecast, for instance in a fleet that never had a request,
/// where all are alike. Threads: one.
class KvShortlist {
 public:
  /// What a worker's closer bound needs; its candidate, without a forecast; and the question for its forecast.
  struct Source {
    std::function<std::uint64_t(const UsableWorker&)> displaced_blocks;
    std::function<double(WorkerId)> affinity_ms;
    std::function<Candidate(const UsableWorker&)> candidate;
    std::function<ForecastQuery(const Candidate&)> query;
  };

  /// For a fleet of so many workers.
  KvShortlist(const Forecaster& forecaster, CostFloor floor, std::size_t workers);

  /// The worker's load, queue or latency model changed.
  void on_changed(WorkerId worker) { floor_.mark(worker); }
  /// The worker has so many slots now (0: unknown).
  void set_slots(WorkerId worker, std::uint32_t slots) { floor_.set_slots(worker, slots); }

  /// Fills `candidates` with those of the `usable` workers that decide, in their order and with forecasts, and returns
  /// the position of what `policy` would choose if all usable workers were candidates. `recorded`: how many candidates
  /// the record of the decision keeps; if more than one, and some usable worker has no requests, one that has none is
  /// among the candidates, of about the least cost. Requires: there is one.
  [[nodiscard]] std::size_t choose(KvPolicy& policy, const PolicyQuery& query, const UsableWorkers& usable,
                                   const Source& source, std::size_t recorded, TimePoint now,
                                   std::vector<Candidate>& candidates);

 private:
  /// Bounds are lowered by this much, far more than what floating point and nanoseconds lose.
  static constexpr double kRoundingShare = 1e-9;
  static constexpr double kRoundingMs = 0.01;
  static constexpr std::uint32_t kNone = ~0U;

  struct Bound {
    double cost = 0;
    std::uint32_t worker = 0;
    bool close = false;
  };
  /// The first two parts of a preference: cached tokens, below 0, and requests that wait.
  using FirstParts = std::pair<std::int64_t, std::uint32_t>;
  static constexpr FirstParts kBeforeAll{std::numeric_limits<std::int64_t>::min(), 0};
  static constexpr FirstParts kBehindAll{std::numeric_limits<std::int64_t>::max(), 0};
  /// A worker of those with the best first parts.
  struct Preferred {
    double since_routed_ms = 0;
    std::uint32_t worker = 0;
  };
  struct Choice;

  const Forecaster* forecaster_;
  CostFloor floor_;
  // Scratch memory of choose().
  std::vector<float> costs_;           // bounds by WorkerId, in whole lanes; infinite for workers that are not usable
  std::vector<std::uint32_t> tokens_;  // of a prompt whose lengths differ, likewise
  std::vector<std::uint32_t> exact_;   // by WorkerId: the position of its candidate, kNone between two choices
  std::vector<Bound> bounds_;
  std::vector<double> cheapest_;
  std::vector<Preferred> preferred_;
};

}  // namespace kvist::routing

// Mode kv in a large fleet: the same choice, without a forecast for each worker.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/cost_floor.h"
#include "kvist/routing/forecaster.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/policy.h"
#include "kvist/routing/usable_worker.h"

namespace kvist::routing {

/// Bounds the cost of every worker that may take the request from below (CostFloor). Candidates with exact forecasts
/// are made in the order of these bounds, until no further worker can be among the cheapest that the record of the
/// decision keeps or among those that may win a tie. In the worst case every worker gets a forecast, for instance in a
/// fleet that never had a request, where all are alike. Threads: one.
class KvShortlist {
 public:
  /// Makes a worker's candidate, without a forecast, and the question for its forecast.
  struct Source {
    std::function<Candidate(const UsableWorker&)> candidate;
    std::function<ForecastQuery(const Candidate&)> query;
  };

  KvShortlist(const Forecaster& forecaster, CostFloor floor) : forecaster_(&forecaster), floor_(std::move(floor)) {}

  /// The worker's load, queue or latency model changed.
  void on_changed(WorkerId worker) { floor_.mark(worker); }
  /// The worker has so many slots now (0: unknown).
  void set_slots(WorkerId worker, std::uint32_t slots) { floor_.set_slots(worker, slots); }

  /// Fills `candidates` with those of the `usable` workers that decide, in their order and with forecasts, and returns
  /// the position of what `policy` would choose if all usable workers were candidates. `recorded`: how many candidates
  /// the record of the decision keeps. Requires: there is one.
  [[nodiscard]] std::size_t choose(KvPolicy& policy, const PolicyQuery& query, std::span<const UsableWorker> usable,
                                   const Source& source, std::size_t recorded, TimePoint now,
                                   std::vector<Candidate>& candidates);

 private:
  /// Bounds are lowered by this much, far more than what floating point and nanoseconds lose.
  static constexpr double kRoundingShare = 1e-9;
  static constexpr double kRoundingMs = 0.01;
  static constexpr std::uint32_t kNone = ~0U;

  struct Bound {
    double cost = 0;
    std::uint32_t position = 0;  // among the usable workers
    friend auto operator<=>(const Bound&, const Bound&) = default;
  };
  /// A worker that may win a tie.
  struct Tied {
    KvPolicy::Preference preference;
    std::uint32_t position = 0;  // among the usable workers
  };
  struct Choice;

  const Forecaster* forecaster_;
  CostFloor floor_;
  std::vector<double> costs_;         // by position among the usable workers: bounds; scratch memory, as are the next
  std::vector<std::uint32_t> exact_;  // likewise: the position of its candidate with an exact forecast, or kNone
  std::vector<Bound> bounds_;
  std::vector<double> cheapest_;
  std::vector<Tied> tied_;
};

}  // namespace kvist::routing

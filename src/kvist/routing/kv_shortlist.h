// Mode kv in a large fleet: the same choice, without a forecast for each worker.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/forecast_floor.h"
#include "kvist/routing/forecaster.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/policy.h"

namespace kvist::routing {

/// Gives each candidate the least forecast that ForecastFloor allows first, and with it the least cost that it may
/// have. Exact forecasts are made in the order of these bounds, until no further candidate can be among the cheapest
/// that the record of the decision keeps, and for those that may win a tie. The worst case is a forecast for every
/// worker, for instance of a fleet that never had a request, where all are alike. Threads: one.
class KvShortlist {
 public:
  /// What a candidate's forecast is asked with.
  using QueryOf = std::function<ForecastQuery(const Candidate&)>;

  /// `recorded`: how many candidates the record of a decision keeps.
  KvShortlist(const Forecaster& forecaster, ForecastFloor floor, std::size_t recorded)
      : forecaster_(&forecaster), floor_(std::move(floor)), recorded_(recorded) {}

  /// The worker's load, queue or latency model changed.
  void on_changed(WorkerId worker) { floor_.mark(worker); }
  /// The worker has so many slots now (0: unknown).
  void set_slots(WorkerId worker, std::uint32_t slots) { floor_.set_slots(worker, slots); }

  /// Returns the position of what `policy` would choose if all candidates had exact forecasts. Leaves those in
  /// `candidates` that have one then, in their order.
  [[nodiscard]] std::size_t choose(KvPolicy& policy, const PolicyQuery& query, std::vector<Candidate>& candidates,
                                   const QueryOf& query_of, TimePoint now);

 private:
  /// Bounds are lowered by this much, far more than what floating point and nanoseconds lose.
  static constexpr double kRoundingShare = 1e-9;
  static constexpr double kRoundingMs = 0.01;

  struct Bound {
    double cost = 0;
    std::uint32_t position = 0;  // among the candidates
  };
  struct Choice;

  const Forecaster* forecaster_;
  ForecastFloor floor_;
  std::size_t recorded_;
  std::vector<Bound> bounds_;        // scratch memory, as are the next
  std::vector<std::uint8_t> exact_;  // by position: 1: the candidate has its exact forecast
  std::vector<double> cheapest_;
  std::vector<std::uint32_t> tied_;
};

}  // namespace kvist::routing

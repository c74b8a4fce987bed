// Lower bounds of the forecasts for the workers of a large fleet, which take less time than the forecasts.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/fleet_latency.h"
#include "kvist/routing/forecast.h"
#include "kvist/routing/forecaster.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/prefill_queue.h"
#include "kvist/routing/returning_requests.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::routing {

/// Keeps per worker, in little memory, what forecasts are made of, and recomputes it for workers whose state changed.
/// What changes with time too, by an exponential function, is bounded instead: how much a worker's own model counts
/// falls from what it was by at most kShareFall a second, and those who return for its cache become fewer at most as
/// fast as at first. All bounds hold exactly but for rounding, for which a caller has to leave some room (see
/// KvShortlist). Threads: one.
class ForecastFloor {
 public:
  /// 1 - exp(-x) with x falling to half in the half life: x exp(-x) is at most 1 / e.
  static constexpr double kShareFall = 0.693147181 * 0.367879442 / (to_seconds(FleetLatency::kHalfLife)) * 1.001;

  /// Requires: `forecaster` and its `loads` outlive this object.
  ForecastFloor(const Forecaster& forecaster, const LoadTracker& loads, std::size_t workers,
                const spec::StepTimeSpec& prior);

  /// The worker's load, queue or latency model changed.
  void mark(WorkerId worker) {
    if (!std::exchange(workers_[worker.value()].marked, true)) due_.push_back(worker);
  }
  void set_slots(WorkerId worker, std::uint32_t slots) {
    if (std::exchange(workers_[worker.value()].slots, slots) != slots) mark(worker);
  }
  /// Recomputes the marked workers, and some others in turn, so that nothing is bounded from long ago.
  void refresh(TimePoint now);

  /// No time, lost token or share of knowledge in it is above that in Forecaster::forecast(). The displaced prefixes,
  /// the mean answer and the error are the same; room, the wait for it, and mean load are left out. Requires: no worker
  /// is marked.
  [[nodiscard]] Forecast least(WorkerId worker, const ForecastQuery& query, TimePoint now) const;

 private:
  static constexpr std::uint32_t kInTurn = 4;

  // Times are milliseconds, points in time those since the clock's epoch.
  struct Worker {
    bool marked = false;
    std::uint32_t slots = 0;  // 0: unknown
    std::uint32_t batch = 0, batch_with = 0;
    double prior_ms = 0, prior_with_ms = 0;  // of a step, but for the prompt
    double prior_per_prompt_token = 0;       // where nothing decodes
    double ratio = 1, ratio_with = 1;        // of the worker's own model, as are the next
    std::array<double, 4> weights = {};
    double share = 0;        // how much it counts, at the time of the next
    double computed_at = 0;  // these values
    double ready = 0, last_first_token = 0;
    PrefillQueue::Sum overdue, queued;
    ReturningRequests::Rate returning;
    double error = 0;
  };
  void refresh(WorkerId id, TimePoint now);

  const Forecaster* forecaster_;
  const LoadTracker* loads_;
  double fixed_ms_;
  double per_sequence_ms_;
  double per_kv_token_ms_;
  std::vector<Worker> workers_;  // by WorkerId
  std::vector<WorkerId> due_;    // the marked ones
  std::uint32_t next_in_turn_ = 0;
};

}  // namespace kvist::routing

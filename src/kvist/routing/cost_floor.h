// Lower bounds of what the workers of a large fleet cost in mode kv, which take less time than forecasts.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/cost_lanes.h"
#include "kvist/routing/fleet_latency.h"
#include "kvist/routing/forecaster.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/prefill_queue.h"
#include "kvist/routing/returning_requests.h"
#include "kvist/routing/usable_worker.h"
#include "kvist/routing/worker_lanes.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::routing {

/// Keeps per worker the few numbers that its cost follows from. They are recomputed when the worker's state changes,
/// and otherwise once they are older than kLasts. What changes by itself in the meantime is bounded: the share with
/// which a worker's own model counts falls by at most kShareFall a second, and the rate of those who return for its
/// cache falls fastest at first. There are two bounds of a cost: a rough one of all workers at once (CostLanes), and
/// one of a single worker that leaves out nothing but its room. Apart from rounding the latter holds exactly; the
/// caller leaves a margin for rounding (KvShortlist). Threads: one.
class CostFloor {
 public:
  /// The most by which the share of a worker's own model, 1 - exp(-x), can fall per second: x halves in the half life,
  /// and x exp(-x) is at most 1 / e.
  static constexpr double kShareFall = 0.693147181 * 0.367879442 / (to_seconds(FleetLatency::kHalfLife)) * 1.001;
  /// With a longer time less is recomputed, and the bounds are wider; with this one by up to a part in 400.
  static constexpr Duration kLasts = std::chrono::milliseconds(100);

  /// Requires: `forecaster` and its `loads` outlive this object.
  CostFloor(const Forecaster& forecaster, const LoadTracker& loads, std::size_t workers,
            const spec::StepTimeSpec& prior);

  /// The worker's load, queue or latency model changed.
  void mark(WorkerId worker) {
    if (!std::exchange(marked_[worker.value()], std::uint8_t{1})) due_.push_back(worker);
  }
  void set_slots(WorkerId worker, std::uint32_t slots) {
    if (std::exchange(slots_[worker.value()], slots) != slots) mark(worker);
  }
  /// Recomputes what decisions at `now` need. Requires: these come before the next mark().
  void refresh(TimePoint now);

  // Of the last refresh().
  /// What KvPolicy::fleet_of() asks of a worker, and of all together.
  [[nodiscard]] std::uint32_t waiting_parts(WorkerId worker) const {
    return static_cast<std::uint32_t>(waiting_[worker.value()]);
  }
  [[nodiscard]] double error(WorkerId worker) const { return summaries_[worker.value()].error; }
  [[nodiscard]] const KvPolicy::Sums& sums() const { return sums_; }
  /// The worker's requests in flight.
  [[nodiscard]] std::uint32_t requests(WorkerId worker) const {
    return static_cast<std::uint32_t>(requests_[worker.value()]);
  }
  /// How many workers have none.
  [[nodiscard]] std::size_t idle() const { return idle_; }
  /// At most Forecast::known.
  [[nodiscard]] double known(WorkerId worker) const { return summaries_[worker.value()].known; }

  /// What a decision's bounds depend on apart from the worker.
  struct Query {
    double now_ms = 0;                ///< since the clock's epoch
    std::uint32_t prompt_tokens = 0;  ///< PolicyQuery::prompt_tokens
    KvPolicy::Prices prices;
    double answer_tokens = 0;
  };
  [[nodiscard]] Query query(std::uint32_t prompt_tokens, const KvPolicy::Fleet& fleet, TimePoint now) const;
  /// Sets a lower bound of KvPolicy::cost() for each worker, by its id. `least_tokens`: of the prompt in any worker's
  /// tokenization. Requires: `costs` has whole lanes.
  void bound_all(const Query& query, std::uint32_t least_tokens, const CostLanes::Request& request,
                 std::span<float> costs) const;
  /// A lower bound of KvPolicy::cost() with the forecast of `usable`. It leaves out a worker's room and the wait for
  /// it, the part of the credit for cached tokens that an exact cost withholds, and Candidate::affinity_ms.
  [[nodiscard]] double bound(const UsableWorker& usable, std::uint64_t displaced_blocks, const Query& query) const;
  /// Makes the bounds in `costs` infinite for all workers but idle ones.
  void keep_idle(std::span<float> costs) const;
  /// What decides who may be in a tie: whose possible cost (KvPolicy) is at most `most`, if a worker's cost is at least
  /// that in `costs` and the cheapest one has so many requests.
  struct Tie {
    std::span<const float> costs;
    double most = 0;
    std::uint32_t requests = 0;
  };
  /// What decides within a tie: the more cached tokens, then the fewer requests that wait.
  struct Rank {
    std::uint32_t cached = 0;
    float waiting = std::numeric_limits<float>::max();
  };
  /// Calls visit(worker) for each one that may be in the tie and, with as many `cached` tokens, is not behind `least`,
  /// which visit() may raise. Now and then for others too.
  template <class Visit>
  void for_each_in(const Tie& tie, std::span<const std::uint32_t> cached, const Rank& least, Visit visit) const;

 private:
  // Times are milliseconds, points in time those since the clock's epoch.
  struct Worker {
    double prior_ms = 0, prior_with_ms = 0;  // of a step, but for the prompt
    double prior_per_prompt_token = 0;       // where nothing decodes
    std::array<double, 4> weights = {};      // of the worker's own model, as are the next
    double ratio = 1, ratio_with = 1;
    double share = 0;        // how much it counts, at the time of the next
    double learned = 0;      // the part of it with which the weights count
    double computed_at = 0;  // these values, as in computed_at_
    std::uint32_t batch = 0, batch_with = 0;
    std::uint32_t decoding = 0;
    bool has_prompts = false;  // the next six are of its PrefillQueue, in which there are some
    double ready = 0, last_first_token = 0;
    PrefillSum head, after;
    ReturningRequests::Rate returning;
  };
  struct Summary {
    double known = 0;  // the least share until the next refresh
    double error = 0;
  };
  // Of one worker: weighted means of its model and the fleet's, from below or above.
  struct Mix {
    double others = 0;  // the weight of the fleet's model
    double own = 0;
    [[nodiscard]] double of(double own_value, double fleet_value) const {
      return others * fleet_value + own * own_value;
    }
  };
  [[nodiscard]] static double least_share(const Worker& w, double now) {
    return std::max(0.0, w.share - kShareFall * 1e-3 * (now - w.computed_at));
  }
  // Unusable workers have an infinite cost.
  [[nodiscard]] static float most_in(const Tie& tie) {
    constexpr float kRounding = 1 + 1e-5F;
    return std::min(static_cast<float>(tie.most) * kRounding, std::numeric_limits<float>::max());
  }
  void refresh(Worker& w, WorkerId id, TimePoint now);
  void refresh_old(TimePoint now);
  void prefetch(WorkerId worker) const;
  void summarize(WorkerId id, std::uint32_t waiting, std::uint32_t requests, const Summary& summary);
  void set_lanes(const Worker& w, WorkerId id);
  void follow_fleet_ratios();
  [[nodiscard]] std::uint32_t ratio_index(std::uint32_t batch) const;
  [[nodiscard]] double queue_ms(const Worker& w, const Query& query, const Mix& least, const Mix& most,
                                double most_step_ms) const;

  const Forecaster* forecaster_;
  const LoadTracker* loads_;
  double fixed_ms_;
  double per_sequence_ms_;
  double per_kv_token_ms_;
  std::vector<Worker> workers_;  // by WorkerId, as are the next
  std::vector<Summary> summaries_;
  std::vector<double> computed_at_;
  std::vector<std::uint8_t> marked_;  // 1: in due_
  std::vector<std::uint32_t> slots_;  // 0: unknown
  std::vector<WorkerId> due_;         // the marked ones
  // No worker was refreshed before the first; since the second the lanes have their base.
  double oldest_at_ = -std::numeric_limits<double>::infinity();
  double base_at_ = -std::numeric_limits<double>::infinity();
  KvPolicy::Sums sums_;  // over all workers
  std::size_t idle_;
  std::vector<float> fleet_ratios_;  // of the fleet's model, by batch size; at least one
  CostLanes lanes_;
  // What a decision asks of every worker, by WorkerId, in whole lanes.
  std::vector<float> requests_;
  std::vector<float> waiting_;
  std::vector<float> doubt_;  // what a possible cost is of a cost, if the worker has fewer requests
};

template <class Visit>
void CostFloor::for_each_in(const Tie& tie, std::span<const std::uint32_t> cached, const Rank& least,
                            Visit visit) const {
  using Lanes = CostLanes::Lanes;
  const float limit = most_in(tie);
  const auto fewer = static_cast<float>(tie.requests);
  const Lanes others = WorkerLanes::all(1.0F);
  const Lanes bounds = WorkerLanes::all(fewer);
  const Lanes never = WorkerLanes::all(std::numeric_limits<float>::infinity());
  for (std::size_t at = 0; at < tie.costs.size(); at += CostLanes::kLanes) {
    const Lanes doubted = WorkerLanes::load(doubt_.data() + at);
    const Lanes factor = WorkerLanes::load(requests_.data() + at) < bounds ? doubted : others;
    const auto tokens = WorkerLanes::load(cached.data() + at);
    const auto few_wait = WorkerLanes::load(waiting_.data() + at) <= WorkerLanes::all(least.waiting);
    const auto most_cached = WorkerLanes::all(least.cached);
    const auto is_ahead = (tokens > most_cached) | ((tokens == most_cached) & few_wait);
    std::array<float, CostLanes::kLanes> possible = {};
    WorkerLanes::store(possible.data(), is_ahead ? WorkerLanes::load(tie.costs.data() + at) * factor : never);
    CostLanes::for_each_up_to(possible, limit,
                              [&](std::uint32_t lane) { visit(WorkerId(static_cast<std::uint32_t>(at) + lane)); });
  }
}

}  // namespace kvist::routing

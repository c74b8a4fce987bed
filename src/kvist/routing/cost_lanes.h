// Rough lower bounds of what all workers of a large fleet cost in mode kv, several workers at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/routing/cost_block.h"
#include "kvist/routing/kv_policy.h"
#include "kvist/routing/prefill_queue.h"
#include "kvist/routing/returning_requests.h"
#include "kvist/routing/worker_lanes.h"

namespace kvist::routing {

/// What CostFloor keeps of every worker, in the order in which a decision reads it and in single precision: 108 bytes a
/// worker, of which those without prompts need 72. A large fleet does not fit into the first caches, so what a decision
/// reads is what it costs. The bounds leave out what needs more of a worker: what the prompt displaces, and the
/// worker's room. Both only add to the cost. Threads: one.
class CostLanes {
 public:
  static constexpr std::size_t kLanes = WorkerLanes::kLanes;
  using Lanes = WorkerLanes::Floats;
  static_assert(CostBlock::kWorkers == WorkerLanes::kMostLanes);
  /// Calls visit(i) for each place where `values` is at most `most`, which visit() may lower. Requires: values come in
  /// whole lanes; visit() only changes the value that it is called for.
  template <class Visit>
  static void for_each_up_to(std::span<const float> values, const float& most, Visit visit);

  /// A finite value that so many of `values`, or more, are at most, and few more as a rule. Requires: values come in
  /// whole lanes. If fewer of them are finite, all these are at most the result.
  [[nodiscard]] static float at_least_so_many(std::span<const float> values, std::size_t wanted);

  /// The prompts that a worker computes before a new one. Points in time are milliseconds since the clock's epoch.
  struct Queue {
    double ready = 0;             ///< of the oldest
    double last_first_token = 0;  ///< of the worker
    // From above: the part of the fleet's model in the first two weights, and the worker's own part of them.
    double others = 0;
    double base_ms = 0, steps = 0;
    PrefillSum head, after;
  };
  /// A decode step: (prior_ms + per_token x prompt tokens) x ratio, the latter a mean of the worker's own and the
  /// fleet's at this batch size.
  struct Step {
    double prior_ms = 0;
    double own_ratio = 0;
    std::uint32_t batch = 0;  ///< index among Query::fleet_ratios
  };
  /// One worker. Everything is such that the cost comes out lower. Times are in milliseconds.
  struct Worker {
    double others = 0;                  ///< the part of the fleet's model in the weights of a first token
    std::array<double, 4> own = {};     ///< the worker's own part of them
    Step with, without;                 ///< with the request, and without it
    double least_share = 0, share = 0;  ///< the worker's own part of a step's ratio is between these
    double per_prompt_token = 0;        ///< of both steps' priors
    double batch = 0;                   ///< who is delayed by a longer step
    double decoding = 0;
    ReturningRequests::Rate returning;
  };
  /// What is the same for all workers of a decision.
  struct Query {
    double now_ms = 0;                    ///< since the clock's epoch
    double least_prompt_tokens = 0;       ///< at any worker
    double per_kv_token_ms = 0;           ///< of a step with the request
    std::array<double, 4> fleet = {};     ///< the weights of a first token by the fleet's model
    std::span<const float> fleet_ratios;  ///< of its steps, by batch size
    KvPolicy::Prices prices;
    double answer_tokens = 0;
  };
  /// The request at each worker, in lists by WorkerId in whole lanes. Lengths and tokens are below 2^31.
  struct Request {
    std::uint32_t longest_prompt_tokens = 0;      ///< PolicyQuery::prompt_tokens
    std::span<const std::uint32_t> tokens = {};   ///< of the prompt; empty where it is the longest at every worker
    std::span<const std::uint32_t> cached = {};   ///< UsableWorker::cached_tokens
    std::span<const std::uint32_t> missing = {};  ///< UsableWorker::replicate_tokens; empty where nobody lacks a copy
  };

  explicit CostLanes(std::size_t workers);
  /// For a caller that has something else to do until set() finds the worker's memory.
  void prefetch(WorkerId worker) const;

  /// Points in time are kept as the milliseconds since this one, of which single precision has three decimals for 16
  /// seconds. Requires: set() follows for every worker.
  void set_base(double base_ms) { base_ms_ = base_ms; }
  /// `queue` is null if the worker has no prompts. `now_ms`: its values are used within seconds of it.
  void set(WorkerId worker, const Worker& values, const Queue* queue, double now_ms);
  /// Whose arithmetic bound() uses, with the same results to the bit: this machine's best, or what all machines have.
  enum class Instructions : std::uint8_t { kBest, kAnyMachine };
  /// Fills `bounds`, which has whole lanes.
  void bound(const Query& query, const Request& request, std::span<float> bounds,
             Instructions instructions = Instructions::kBest) const;

 private:
  double base_ms_ = 0;
  std::vector<CostBlock> blocks_;
  std::vector<CostQueueBlock> queues_;  // of the same workers
};

template <class Visit>
void CostLanes::for_each_up_to(std::span<const float> values, const float& most, Visit visit) {
  for (std::size_t at = 0; at < values.size(); at += kLanes) {
    const auto within = WorkerLanes::load(values.data() + at) <= WorkerLanes::all(most);
    if (!WorkerLanes::any(within)) continue;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      if (values[at + lane] <= most) visit(static_cast<std::uint32_t>(at + lane));
  }
}

}  // namespace kvist::routing

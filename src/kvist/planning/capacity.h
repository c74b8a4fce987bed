// How many users a deployment holds, and how many workers a number of users needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/edge_search.h"
#include "kvist/planning/level_evaluator.h"
#include "kvist/planning/level_judge.h"
#include "kvist/planning/slo.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

/// How thorough a search is.
struct CapacityOptions {
  JudgeOptions judge;
  std::uint32_t start_users = 0;  ///< where to look first; 0: an eighth of the deployment's batch slots
  double growth = 2;
  double resolution = 0.01;  ///< share of the answer to which it is found
  std::uint32_t probes_below = 6;
  std::uint32_t probes_above = 3;  ///< between the answer and the number of batch slots
  std::uint32_t max_users = 0;     ///< 0: the gateway's max_in_flight
  std::uint32_t max_workers = 1'024;
  /// Told about each finished search, one call at a time, in the order they finish; empty: nobody.
  std::function<void(const std::string&)> progress = {};
};

/// The answer for one mode. `users` is the best guess; with the confidence asked for it is between `surely` and
/// `at_most`, as far as the levels looked at can tell.
struct Capacity {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t users = 0;  ///< holds here and at every level looked at below; 0: not even one user
  std::uint32_t surely = 0;
  std::uint32_t at_most = 0;
  bool at_limit = false;                   ///< still holds at max_users
  std::vector<std::uint32_t> holds_again;  ///< levels above where the SLO holds nevertheless
  std::optional<Objective> limited_by;     ///< what is broken at the next level; nothing at the limit
  std::vector<Judgement> levels;           ///< all that were looked at, ascending
};

/// The most users of `sweep`'s deployment within the SLO. Errors: what the evaluator says, for a deployment that does
/// not fit its GPUs for example.
[[nodiscard]] Result<Capacity> find_capacity(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                             spec::RoutingMode mode, const Slo& slo, const CapacityOptions& options);
/// The same for several modes at once, in their order.
[[nodiscard]] Result<std::vector<Capacity>> find_capacities(const LevelEvaluator& evaluator,
                                                            const spec::SweepSpec& sweep,
                                                            const std::vector<spec::RoutingMode>& modes, const Slo& slo,
                                                            const CapacityOptions& options);

/// The answer for one mode: at least `surely_needs` and, to be sure, `surely_enough` workers.
struct WorkersNeeded {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t users = 0;
  std::uint32_t workers = 0;  ///< the best guess; 0: not even max_workers are enough
  std::uint32_t surely_needs = 0;
  std::uint32_t surely_enough = 0;           ///< 0: not even max_workers surely are
  std::vector<std::uint32_t> enough_below;   ///< fewer workers that hold nevertheless, though some count above does not
  std::optional<Objective> limited_by;       ///< what one worker less breaks
  std::vector<std::uint32_t> worker_counts;  ///< that were looked at, ascending
  std::vector<Judgement> levels;             ///< in the order of worker_counts
};

/// The fewest workers that hold `users` within the SLO, by bisection over their number; counts above the answer are
/// looked at, too, because more workers can break what fewer hold.
[[nodiscard]] Result<WorkersNeeded> find_workers(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                                 spec::RoutingMode mode, std::uint32_t users, const Slo& slo,
                                                 const CapacityOptions& options);

/// Calls search(i, options) for `count` searches, several at once; each gets its share of the threads for its seeds.
void run_searches(std::size_t count, const CapacityOptions& options,
                  const std::function<void(std::size_t, const CapacityOptions&)>& search);

/// The sweep with `count` workers: those it has, repeated in their order, each with a name of its own.
[[nodiscard]] spec::SweepSpec with_workers(const spec::SweepSpec& sweep, std::uint32_t count);
/// GPUs of all workers; a worker without a profile counts as one.
[[nodiscard]] std::uint32_t gpus_of(const spec::DeploymentSpec& deployment);
/// Requests that all workers together can run at once.
[[nodiscard]] std::uint32_t batch_slots_of(const spec::DeploymentSpec& deployment);

}  // namespace kvist::planning

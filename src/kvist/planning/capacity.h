// How many users a deployment can serve within an SLO, and how many workers a number of users needs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/edge_search.h"
#include "kvist/planning/level_evaluator.h"
#include "kvist/planning/level_judge.h"
#include "kvist/planning/slo.h"
#include "kvist/spec/arm.h"
#include "kvist/spec/sweep.h"

namespace kvist::planning {

/// Options of a search.
struct CapacityOptions {
  JudgeOptions judge;
  std::uint32_t start_users = 0;  ///< the first level that is simulated; 0: an eighth of the deployment's batch slots
  double growth = 2;
  double resolution = 0.01;  ///< resolution of the answer, as a share of it
  std::uint32_t probes_below = 6;
  std::uint32_t probes_above = 3;  ///< levels that are checked between the answer and the number of batch slots
  std::uint32_t max_users = 0;     ///< 0: the gateway's max_in_flight, above which it is never in a closed loop
  std::uint32_t max_workers = 1'024;
  /// Called after each finished search, one call at a time; may be empty.
  std::function<void(const std::string&)> progress = {};
};

/// Where a search ended because a figure was not measured: the level is neither within the SLO nor beyond it.
struct UnknownLevel {
  std::uint32_t at = 0;  ///< users; of find_workers() the workers
  Headline figure = Headline::kTtftP95;
  std::size_t seeds_without = 0;  ///< that do not have it
  std::size_t seeds = 0;
};
/// "ITL p95 was not measured at 24 users (3 of 3 seeds have none): ...", with what may help. `what` is counted: "user".
[[nodiscard]] std::string unknown_text(const UnknownLevel& unknown, std::string_view what);

/// The answer for one mode. `users` is the best estimate. With the confidence asked for it is between `surely` and
/// `at_most`, as far as the simulated levels show.
struct Capacity {
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t users = 0;  ///< the SLO holds here and at every simulated level below; 0: not even with one user
  std::uint32_t surely = 0;
  std::uint32_t at_most = 0;
  bool at_limit = false;                   ///< the SLO still holds at max_users
  bool lacks_interval = false;             ///< `surely` and `at_most` depend on levels that means alone decided
  std::vector<std::uint32_t> holds_again;  ///< higher levels at which the SLO holds again
  std::optional<Objective> limited_by;     ///< the objective that is broken at the next level; nothing at the limit
  /// The most users at which a rate or a hit rate is below its limit only because so few ask for little; 0: no such
  /// level was seen. The levels up to it do not count as broken.
  std::uint32_t too_few = 0;
  std::optional<UnknownLevel> unknown = {};  ///< then there is no answer, only the levels
  std::vector<Judgement> levels;             ///< all simulated levels, ascending
};

/// Finds the most users of `sweep`'s deployment within the SLO. Where few users do not reach a least rate, the search
/// begins above them. It ends at a level whose verdict is kUnknown. Errors: the evaluator's, for example for a
/// deployment that does not fit its GPUs.
[[nodiscard]] Result<Capacity> find_capacity(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                             spec::RoutingMode mode, const Slo& slo, const CapacityOptions& options);
/// Finds the answers for several modes at once, in their order.
[[nodiscard]] Result<std::vector<Capacity>> find_capacities(const LevelEvaluator& evaluator,
                                                            const spec::SweepSpec& sweep,
                                                            const std::vector<spec::RoutingMode>& modes, const Slo& slo,
                                                            const CapacityOptions& options);

/// The answer for one mode: at least `surely_needs` workers are needed, and `surely_enough` certainly suffice.
struct WorkersNeeded {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t users = 0;
  std::uint32_t workers = 0;  ///< the best estimate; 0: not even max_workers are enough
  std::uint32_t surely_needs = 0;
  std::uint32_t surely_enough = 0;           ///< 0: not even max_workers certainly are
  bool lacks_interval = false;               ///< as that of a Capacity
  std::vector<std::uint32_t> enough_below;   ///< smaller numbers that are enough, although some larger number is not
  std::optional<Objective> limited_by;       ///< the objective that one worker less breaks
  std::optional<UnknownLevel> unknown = {};  ///< then there is no answer, only the levels
  std::vector<std::uint32_t> worker_counts;  ///< simulated numbers of workers, ascending
  std::vector<Judgement> levels;             ///< in the order of worker_counts
};

/// Finds the fewest workers that serve `users` within the SLO, by bisection. Numbers above the answer are simulated
/// too, because more workers can break an SLO that fewer satisfy.
[[nodiscard]] Result<WorkersNeeded> find_workers(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                                 spec::RoutingMode mode, std::uint32_t users, const Slo& slo,
                                                 const CapacityOptions& options);

/// Calls search(i, options) for `count` searches, several at once; each gets its share of the threads for its seeds.
void run_searches(std::size_t count, const CapacityOptions& options,
                  const std::function<void(std::size_t, const CapacityOptions&)>& search);

/// The sweep with `count` workers: the given ones, repeated in order, each with a name of its own.
[[nodiscard]] spec::SweepSpec with_workers(const spec::SweepSpec& sweep, std::uint32_t count);
/// GPUs of all workers; a worker without a profile counts as one.
[[nodiscard]] std::uint32_t gpus_of(const spec::DeploymentSpec& deployment);
/// The batch slots of all workers together.
[[nodiscard]] std::uint32_t batch_slots_of(const spec::DeploymentSpec& deployment);

}  // namespace kvist::planning

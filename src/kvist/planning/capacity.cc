#include "kvist/planning/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/sweep/parallel.h"

namespace kvist::planning {
namespace {

Look look_of(const Judgement& judgement) {
  return {.holds = judgement.holds_on_average(), .sure = judgement.verdict != Verdict::kUndecided};
}

/// The objective that the first level above the answer breaks.
std::optional<Objective> limiting_objective(const std::vector<Judgement>& levels, std::uint32_t users) {
  for (const Judgement& level : levels) {
    if (level.users > users && !level.holds_on_average()) return level.tightest().objective;
  }
  return std::nullopt;
}

std::uint32_t user_limit(const spec::SweepSpec& sweep, const CapacityOptions& options) {
  const std::uint32_t accepted = sweep.deployment.gateway.max_in_flight;
  if (options.max_users == 0) return std::max(1U, accepted);
  // Of a load with a schedule a user is a rate, which nothing limits to the number of requests in flight.
  return std::max(1U, spec::has_schedule(sweep.workload) ? options.max_users : std::min(options.max_users, accepted));
}

/// Whether any level from which an interval comes was decided by means alone: from the last that certainly holds to the
/// first that certainly does not.
bool any_lacks_interval(const std::map<std::uint32_t, Judgement>& judged, std::uint32_t surely, std::uint32_t at_most) {
  return std::ranges::any_of(judged, [&](const auto& level) {
    return level.first >= surely && level.first <= at_most + 1 && level.second.lacks_interval();
  });
}

UnknownLevel unknown_level(std::uint32_t at, const Judgement& judgement) {
  const ObjectiveEstimate& one = judgement.unknown();
  return {
      .at = at, .figure = one.objective.figure, .seeds_without = one.seeds_without, .seeds = judgement.samples.size()};
}

/// Ends a search from within a look; the search itself says why.
std::unexpected<Error> end_of_search() {
  return fail(ErrorCode::kUnavailable, "a figure was not measured");
}

/// The property whose edge is searched for is "the SLO holds".
class CapacitySearch {
 public:
  CapacitySearch(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep, spec::RoutingMode mode, const Slo& slo,
                 const CapacityOptions& options)
      : evaluator_(evaluator),
        sweep_(sweep),
        mode_(mode),
        slo_(slo),
        options_(options),
        slots_(batch_slots_of(sweep.deployment)),
        limit_(user_limit(sweep, options)) {}

  Result<Capacity> find() {
    auto edge = find_from_enough();
    if (!edge && !unknown_) return std::unexpected(std::move(edge).error());
    Capacity capacity{.mode = mode_, .holds_again = {}, .limited_by = {}, .too_few = too_few_, .levels = {}};
    capacity.unknown = unknown_;
    if (edge) {
      capacity.users = edge->last;
      capacity.surely = edge->sure_last > too_few_ ? edge->sure_last : 0;
      capacity.at_most = edge->at_most;
      capacity.at_limit = edge->at_limit;
      capacity.holds_again = edge->holds_again;
      capacity.lacks_interval = any_lacks_interval(judged_, std::max(capacity.surely, too_few_ + 1), capacity.at_most);
    }
    for (auto& [users, judgement] : judged_) capacity.levels.push_back(std::move(judgement));
    if (edge) capacity.limited_by = limiting_objective(capacity.levels, std::max(capacity.users, too_few_));
    return capacity;
  }

 private:
  Result<Edge> find_from_enough() {
    // With few users the caches stay cold for most of a level, which shows a deployment's start and not its capacity.
    const std::uint32_t warm = std::max(1U, slots_ / 8);
    const std::uint32_t start = std::clamp(options_.start_users == 0 ? warm : options_.start_users, 1U, limit_);
    KVIST_TRY(const std::uint32_t enough, enough_load(start));
    enough_ = enough;
    if (too_few_ > 0 && !judged_.at(enough).holds_on_average()) {
      return Edge{.at_most = enough - 1, .holds_again = {}, .looked_at = {}};
    }
    const EdgeSearchOptions search{.start = enough,
                                   .limit = limit_,
                                   .growth = options_.growth,
                                   .resolution = options_.resolution,
                                   .probe_from = std::max(warm, too_few_),
                                   .probes_below = options_.probes_below,
                                   .probes_above = options_.probes_above,
                                   .probe_to = slots_};
    const auto look_at = [this](std::uint32_t users) { return look(users); };
    KVIST_TRY(Edge edge, find_edge(look_at, search));
    sure_from_ = surely_enough_load();
    calm_up_to_ = half_of_what_holds();
    if (sure_from_ == 0 && calm_up_to_ == 0) return edge;
    return find_edge(look_at, search);  // mostly levels that are known already
  }

  /// The highest number at which the SLO surely holds and below which nothing is in doubt but whether the load is
  /// enough; 0: there is none. Where a least rate is just reached it is in doubt, which says nothing about the most
  /// users.
  [[nodiscard]] std::uint32_t surely_enough_load() const {
    std::uint32_t sure = 0;
    for (auto level = judged_.upper_bound(too_few_); level != judged_.end(); ++level) {
      if (level->second.verdict == Verdict::kHolds) {
        sure = level->first;
      } else if (!level->second.doubts_only_load()) {
        break;
      }
    }
    return sure;
  }

  /// Of a replay, half of the highest number at which the SLO surely holds and below which it holds on average. Few
  /// users make few turns, which leave it in doubt; where twice as many leave none, that says nothing about the most
  /// users.
  [[nodiscard]] std::uint32_t half_of_what_holds() const {
    std::uint32_t sure = 0;
    if (!options_.judge.same_requests) return sure;
    for (auto level = judged_.upper_bound(too_few_); level != judged_.end(); ++level) {
      if (!level->second.holds_on_average()) break;
      if (level->second.verdict == Verdict::kHolds) sure = level->first;
    }
    return sure / 2;
  }

  /// The first number from `start` on, in growing steps, at which the load is not what is missing; without any the
  /// limit. Between it and too_few_ may be numbers at which the SLO holds: those are bisected.
  Result<std::uint32_t> enough_load(std::uint32_t start) {
    std::uint32_t number = start;
    while (true) {
      KVIST_TRY(const Judgement* judgement, judge(number));
      if (!judgement->lacks_load()) break;
      too_few_ = number;
      if (number == limit_) return number;
      number = static_cast<std::uint32_t>(std::min<double>(limit_, std::ceil(number * options_.growth)));
    }
    while (too_few_ > 0 && !judged_.at(number).holds_on_average() && number - too_few_ > std::max(1U, too_few_ / 100)) {
      const std::uint32_t middle = too_few_ + (number - too_few_) / 2;
      KVIST_TRY(const Judgement* judgement, judge(middle));
      (judgement->lacks_load() ? too_few_ : number) = middle;
    }
    return number;
  }

  Result<Look> look(std::uint32_t users) {
    if (users <= too_few_) return Look{.holds = true, .sure = true};  // not an edge: the system could do more
    KVIST_TRY(const Judgement* judgement, judge(users));
    if (users < enough_ && judgement->lacks_load()) {
      too_few_ = std::max(too_few_, users);
      return Look{.holds = true, .sure = true};
    }
    Look seen = look_of(*judgement);
    seen.sure |= seen.holds && users < sure_from_ && judgement->doubts_only_load();
    seen.sure |= seen.holds && users <= calm_up_to_;
    return seen;
  }

  Result<const Judgement*> judge(std::uint32_t users) {
    if (const auto known = judged_.find(users); known != judged_.end()) return &known->second;
    KVIST_TRY(Judgement judgement, judge_level(evaluator_, sweep_, mode_, users, slo_, options_.judge));
    const auto entry = judged_.emplace(users, std::move(judgement)).first;
    if (entry->second.verdict != Verdict::kUnknown || entry->second.lacks_load()) return &entry->second;
    unknown_ = unknown_level(users, entry->second);
    return end_of_search();
  }

  const LevelEvaluator& evaluator_;
  const spec::SweepSpec& sweep_;
  const spec::RoutingMode mode_;
  const Slo& slo_;
  const CapacityOptions& options_;
  const std::uint32_t slots_;
  const std::uint32_t limit_;
  std::map<std::uint32_t, Judgement> judged_;
  std::uint32_t too_few_ = 0;
  std::uint32_t enough_ = 0;  // from here on a rate that is too low is an edge
  std::uint32_t sure_from_ = 0;
  std::uint32_t calm_up_to_ = 0;
  std::optional<UnknownLevel> unknown_;
};

/// The property whose edge is searched for is "too few workers": the edge is the greatest number that is not enough.
class WorkerSearch {
 public:
  WorkerSearch(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep, spec::RoutingMode mode,
               std::uint32_t users, const Slo& slo, const CapacityOptions& options)
      : evaluator_(evaluator), sweep_(sweep), mode_(mode), users_(users), slo_(slo), options_(options) {}

  Result<WorkersNeeded> find() {
    const auto present = static_cast<std::uint32_t>(sweep_.deployment.workers.size());
    const std::uint32_t slots_each = std::max(1U, batch_slots_of(sweep_.deployment) / std::max(1U, present));
    const std::uint32_t from = std::clamp(users_ / slots_each, 1U, options_.max_workers);
    auto edge = last_edge_from(from);
    if (!edge && !unknown_) return std::unexpected(std::move(edge).error());
    return conclude(edge.value_or(Edge{}));
  }

 private:
  Result<Edge> last_edge_from(std::uint32_t count) {
    Edge edge;
    for (std::optional<std::uint32_t> too_few = count; too_few;) {
      KVIST_TRY(edge, edge_from(*too_few));
      KVIST_TRY(too_few, too_few_again(edge));
    }
    return edge;
  }

  Result<Look> too_few(std::uint32_t count) {
    const auto found = judged_.find(count);
    if (found == judged_.end()) {
      KVIST_TRY(Judgement judgement,
                judge_level(evaluator_, with_workers(sweep_, count), mode_, users_, slo_, options_.judge));
      judged_.emplace(count, std::move(judgement));
    }
    if (const Judgement& judged = judged_.at(count); judged.verdict == Verdict::kUnknown) {
      unknown_ = unknown_level(count, judged);
      return end_of_search();
    }
    const Look look = look_of(judged_.at(count));
    return Look{.holds = !look.holds, .sure = look.sure};
  }

  Result<Edge> edge_from(std::uint32_t count) {
    const EdgeSearchOptions search{.start = count,
                                   .limit = options_.max_workers,
                                   .growth = 1.5,
                                   .resolution = options_.resolution,
                                   .probe_from = 0,
                                   .probes_below = 0,
                                   .probes_above = 0,
                                   .probe_to = 0};
    return find_edge([this](std::uint32_t workers) { return too_few(workers); }, search);
  }

  /// A number of workers above the answer that is too few again, because a batch that was full, with a captured graph,
  /// no longer is. Simulates one more, and a quarter, half and as many more.
  Result<std::optional<std::uint32_t>> too_few_again(const Edge& edge) {
    std::optional<std::uint32_t> again;
    const std::uint32_t enough = edge.last + 1;
    for (const std::uint32_t count : {enough + 1, enough + enough / 4, enough + enough / 2, 2 * enough}) {
      if (count <= enough || count > options_.max_workers) continue;
      KVIST_TRY(const Look look, too_few(count));
      if (look.holds) again = count;
    }
    return again;
  }

  [[nodiscard]] WorkersNeeded conclude(const Edge& edge) {
    WorkersNeeded needed{.mode = mode_,
                         .users = users_,
                         .workers = edge.at_limit ? 0 : edge.last + 1,
                         .surely_needs = edge.sure_last + 1,
                         .surely_enough = edge.at_most >= options_.max_workers ? 0 : edge.at_most + 1,
                         .enough_below = {},
                         .limited_by = std::nullopt,
                         .unknown = unknown_,
                         .worker_counts = {},
                         .levels = {}};
    needed.lacks_interval = any_lacks_interval(judged_, edge.sure_last, edge.at_most);
    if (unknown_) needed.workers = needed.surely_needs = needed.surely_enough = 0;
    for (auto& [count, judgement] : judged_) {
      if (count == edge.last) needed.limited_by = judgement.tightest().objective;
      if (count < edge.last && judgement.holds_on_average()) needed.enough_below.push_back(count);
      needed.worker_counts.push_back(count);
      needed.levels.push_back(std::move(judgement));
    }
    return needed;
  }

  const LevelEvaluator& evaluator_;
  const spec::SweepSpec& sweep_;
  const spec::RoutingMode mode_;
  const std::uint32_t users_;
  const Slo& slo_;
  const CapacityOptions& options_;
  std::map<std::uint32_t, Judgement> judged_;
  std::optional<UnknownLevel> unknown_;
};

/// What may help against a missing figure.
std::string_view remedy(Headline figure) {
  if (spec::key_of(figure).starts_with("itl_")) return "no answer came in more than one chunk";
  if (figure == Headline::kHitRatePct) return "the target does not say how many prompt tokens it had cached";
  return "no turn of the measuring window had it: measure longer (method: snapshot_interval)";
}

}  // namespace

std::string unknown_text(const UnknownLevel& unknown, std::string_view what) {
  return fmt::format(
      "{} was not measured at {} {}{} ({} of {} seeds have none), so that nobody can say whether it is within its "
      "limit: "
      "the search ended there. {}",
      analysis::headline(unknown.figure).title, unknown.at, what, unknown.at == 1 ? "" : "s", unknown.seeds_without,
      unknown.seeds, remedy(unknown.figure));
}

Result<Capacity> find_capacity(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep, spec::RoutingMode mode,
                               const Slo& slo, const CapacityOptions& options) {
  return CapacitySearch(evaluator, sweep, mode, slo, options).find();
}

Result<std::vector<Capacity>> find_capacities(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                              const std::vector<spec::RoutingMode>& modes, const Slo& slo,
                                              const CapacityOptions& options) {
  std::vector<Result<Capacity>> found(modes.size());
  run_searches(modes.size(), options, [&](std::size_t i, const CapacityOptions& own) {
    found[i] = find_capacity(evaluator, sweep, modes[i], slo, own);
    if (!own.progress || !found[i]) return;
    own.progress(fmt::format("{}: {}", to_string(modes[i]),
                             found[i]->unknown ? "no answer" : fmt::format("{} users", found[i]->users)));
  });
  std::vector<Capacity> capacities;
  for (Result<Capacity>& one : found) {
    KVIST_TRY(Capacity capacity, std::move(one));
    capacities.push_back(std::move(capacity));
  }
  return capacities;
}

void run_searches(std::size_t count, const CapacityOptions& options,
                  const std::function<void(std::size_t, const CapacityOptions&)>& search) {
  const unsigned threads =
      options.judge.threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : options.judge.threads;
  const unsigned searches = static_cast<unsigned>(std::clamp<std::size_t>(count, 1, threads));
  CapacityOptions own = options;
  std::mutex telling;
  if (options.progress) {
    own.progress = [&](const std::string& line) {
      const std::scoped_lock lock(telling);
      options.progress(line);
    };
  }
  own.judge.threads = std::max(1U, threads / searches);
  sweep::for_each_index(count, searches, [&](std::size_t i) { search(i, own); });
}

Result<WorkersNeeded> find_workers(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                   spec::RoutingMode mode, std::uint32_t users, const Slo& slo,
                                   const CapacityOptions& options) {
  const bool too_many = users > sweep.deployment.gateway.max_in_flight && !spec::has_schedule(sweep.workload);
  if (users == 0 || too_many) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("--users: {} users at once; the gateway's max_in_flight allows 1 to {}", users,
                            sweep.deployment.gateway.max_in_flight));
  }
  return WorkerSearch(evaluator, sweep, mode, users, slo, options).find();
}

spec::SweepSpec with_workers(const spec::SweepSpec& sweep, std::uint32_t count) {
  const std::vector<spec::WorkerSpec>& present = sweep.deployment.workers;
  KVIST_CHECK(!present.empty(), "a deployment has workers");
  spec::SweepSpec changed = sweep;
  changed.deployment.workers.clear();
  for (std::uint32_t i = 0; i < count; ++i) {
    spec::WorkerSpec& worker = changed.deployment.workers.emplace_back(present[i % present.size()]);
    worker.name = fmt::format("worker-{}", i);
  }
  return changed;
}

std::uint32_t gpus_of(const spec::DeploymentSpec& deployment) {
  std::uint32_t gpus = 0;
  for (const spec::WorkerSpec& worker : deployment.workers)
    gpus += worker.profile ? worker.profile->tensor_parallel : 1;
  return gpus;
}

std::uint32_t batch_slots_of(const spec::DeploymentSpec& deployment) {
  std::uint32_t slots = 0;
  for (const spec::WorkerSpec& worker : deployment.workers) slots += worker.max_batch_size;
  return slots;
}

}  // namespace kvist::planning

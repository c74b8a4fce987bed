#include "kvist/planning/capacity.h"

#include <fmt/format.h>

#include <algorithm>
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
  return std::max(1U, options.max_users == 0 ? accepted : std::min(options.max_users, accepted));
}

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
    Edge edge;
    for (std::optional<std::uint32_t> too_few = from; too_few;) {
      KVIST_TRY(edge, edge_from(*too_few));
      KVIST_TRY(too_few, too_few_again(edge));
    }
    return conclude(edge);
  }

 private:
  Result<Look> too_few(std::uint32_t count) {
    const auto found = judged_.find(count);
    if (found == judged_.end()) {
      KVIST_TRY(Judgement judgement,
                judge_level(evaluator_, with_workers(sweep_, count), mode_, users_, slo_, options_.judge));
      judged_.emplace(count, std::move(judgement));
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
                         .worker_counts = {},
                         .levels = {}};
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
};

}  // namespace

Result<Capacity> find_capacity(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep, spec::RoutingMode mode,
                               const Slo& slo, const CapacityOptions& options) {
  const std::uint32_t slots = batch_slots_of(sweep.deployment);
  // With few users the caches stay cold for most of a level, which shows a deployment's start and not its capacity.
  const std::uint32_t warm = std::max(1U, slots / 8);
  const EdgeSearchOptions search{.start = options.start_users == 0 ? warm : options.start_users,
                                 .limit = user_limit(sweep, options),
                                 .growth = options.growth,
                                 .resolution = options.resolution,
                                 .probe_from = warm,
                                 .probes_below = options.probes_below,
                                 .probes_above = options.probes_above,
                                 .probe_to = slots};
  std::map<std::uint32_t, Judgement> judged;
  KVIST_TRY(const Edge edge, find_edge(
                                 [&](std::uint32_t users) -> Result<Look> {
                                   KVIST_TRY(Judgement judgement,
                                             judge_level(evaluator, sweep, mode, users, slo, options.judge));
                                   const Look look = look_of(judgement);
                                   judged.emplace(users, std::move(judgement));
                                   return look;
                                 },
                                 search));
  Capacity capacity{.mode = mode,
                    .users = edge.last,
                    .surely = edge.sure_last,
                    .at_most = edge.at_most,
                    .at_limit = edge.at_limit,
                    .holds_again = edge.holds_again,
                    .limited_by = std::nullopt,
                    .levels = {}};
  for (auto& [users, judgement] : judged) capacity.levels.push_back(std::move(judgement));
  capacity.limited_by = limiting_objective(capacity.levels, capacity.users);
  return capacity;
}

Result<std::vector<Capacity>> find_capacities(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                              const std::vector<spec::RoutingMode>& modes, const Slo& slo,
                                              const CapacityOptions& options) {
  std::vector<Result<Capacity>> found(modes.size());
  run_searches(modes.size(), options, [&](std::size_t i, const CapacityOptions& own) {
    found[i] = find_capacity(evaluator, sweep, modes[i], slo, own);
    if (own.progress && found[i]) own.progress(fmt::format("{}: {} users", to_string(modes[i]), found[i]->users));
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
  if (users == 0 || users > sweep.deployment.gateway.max_in_flight) {
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

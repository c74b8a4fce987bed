#include "kvist/planning/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
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

}  // namespace

Result<Capacity> find_capacity(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep, spec::RoutingMode mode,
                               const Slo& slo, const CapacityOptions& options) {
  const std::uint32_t slots = batch_slots_of(sweep.deployment);
  const EdgeSearchOptions search{.start = options.start_users == 0 ? std::max(1U, slots / 8) : options.start_users,
                                 .limit = user_limit(sweep, options),
                                 .growth = options.growth,
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
  const auto present = static_cast<std::uint32_t>(sweep.deployment.workers.size());
  const std::uint32_t slots_each = std::max(1U, batch_slots_of(sweep.deployment) / std::max(1U, present));
  const EdgeSearchOptions search{.start = std::clamp(users / slots_each, 1U, options.max_workers),
                                 .limit = options.max_workers,
                                 .growth = 1.5,
                                 .probes_below = 0,
                                 .probes_above = 0,
                                 .probe_to = 0};
  std::map<std::uint32_t, Judgement> judged;
  // Too few is the property whose edge is sought: the edge is the greatest number of workers that does not suffice.
  KVIST_TRY(const Edge edge, find_edge(
                                 [&](std::uint32_t count) -> Result<Look> {
                                   KVIST_TRY(Judgement judgement, judge_level(evaluator, with_workers(sweep, count),
                                                                              mode, users, slo, options.judge));
                                   const Look look = look_of(judgement);
                                   judged.emplace(count, std::move(judgement));
                                   return Look{.holds = !look.holds, .sure = look.sure};
                                 },
                                 search));
  WorkersNeeded needed{.mode = mode,
                       .users = users,
                       .workers = edge.at_limit ? 0 : edge.last + 1,
                       .surely_needs = edge.sure_last + 1,
                       .surely_enough = edge.at_most >= options.max_workers ? 0 : edge.at_most + 1,
                       .limited_by = std::nullopt,
                       .worker_counts = {},
                       .levels = {}};
  for (auto& [count, judgement] : judged) {
    if (count == edge.last) needed.limited_by = judgement.tightest().objective;
    needed.worker_counts.push_back(count);
    needed.levels.push_back(std::move(judgement));
  }
  return needed;
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

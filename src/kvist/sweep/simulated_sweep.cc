#include "kvist/sweep/simulated_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kvist/net/event_loop.h"
#include "kvist/net/time_of_day.h"
#include "kvist/results/store.h"
#include "kvist/simulation/level.h"
#include "kvist/sweep/arm_settings.h"
#include "kvist/sweep/failure_reasons.h"
#include "kvist/sweep/machine.h"
#include "kvist/sweep/output_folder.h"
#include "kvist/sweep/parallel.h"
#include "kvist/sweep/plan.h"
#include "kvist/sweep/resolve.h"
#include "kvist/sweep/run_progress.h"
#include "kvist/sweep/simulated_record.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/trace_outcome.h"

namespace kvist::sweep {
namespace {

/// The levels of one load.
struct PlannedLoad {
  std::size_t position = 0;  ///< index of its first level in the plan
  std::span<const PlannedLevel> levels;
};

std::vector<PlannedLoad> loads_of(const std::vector<PlannedMode>& plan, const spec::SweepSpec& sweep) {
  std::vector<PlannedLoad> loads;
  std::size_t position = 0;
  for (const PlannedMode& mode : plan) {
    for (const std::span<const PlannedLevel> levels : loads_of(mode, sweep)) {
      loads.push_back({.position = position, .levels = levels});
      position += levels.size();
    }
  }
  return loads;
}

/// The figures of a progress line, counted as turns pass.
struct TurnCounts {
  std::uint64_t turns = 0;
  FailureReasons failures;

  void add(const std::vector<workload::TurnSample>& more) {
    turns += more.size();
    for (const workload::TurnSample& turn : more) {
      if (turn.outcome == workload::TurnOutcome::kFailed) failures.add(turn.error);
    }
  }
};

/// One sweep under way: what its threads share.
class SimulatedSweep {
 public:
  SimulatedSweep(const spec::SweepSpec& sweep, ResolvedSweep resolved, const SimulatedSweepOptions& options)
      : sweep_(sweep),
        resolved_(std::move(resolved)),
        options_(options),
        plan_(make_plan(sweep)),
        arms_(spec::arms_of(sweep)),
        loads_(loads_of(plan_, sweep)),
        run_progress_(sweep) {
    for (const PlannedLoad& load : loads_) outcome_.sweep.levels_planned += load.levels.size();
  }

  Result<SimulatedSweepOutcome> run() {
    KVIST_TRY_VOID(prepare());
    const TimePoint begun = net::now();
    for (const std::vector<PlannedLoad>& round : rounds()) {
      const std::vector<PlannedLoad> open = open_of(round);
      const bool two_each = has_two_threads_for(open.size());
      for_each_index(open.size(), options_.threads, [&](std::size_t i) { simulate(open[i], two_each); });
    }
    outcome_.speed.wall_s = to_seconds(net::now() - begun);
    auto reported = report();
    if (!reported && !outcome_.sweep.failure) outcome_.sweep.failure = std::move(reported).error();
    return std::move(outcome_);
  }

 private:
  /// The loads that may be simulated at once: all of them or, with a rule that ends repetitions, those of one
  /// repetition.
  [[nodiscard]] std::vector<std::vector<PlannedLoad>> rounds() const {
    if (!sweep_.comparison.stop_when) return {loads_};
    std::vector<std::vector<PlannedLoad>> rounds(sweep_.method.repetitions);
    for (const PlannedLoad& load : loads_) rounds[load.levels.front().repetition].push_back(load);
    return rounds;
  }

  /// The loads that are still to be simulated. For those that the rule has ended a line is printed.
  [[nodiscard]] std::vector<PlannedLoad> open_of(const std::vector<PlannedLoad>& round) {
    std::vector<PlannedLoad> open;
    for (const PlannedLoad& load : round) {
      if (run_progress_.is_open(load.levels, load.position)) {
        open.push_back(load);
      } else if (run_progress_.is_settled(load.levels)) {
        outcome_.sweep.levels_planned -= load.levels.size();
      }
    }
    return open;
  }

  Result<void> resume() {
    KVIST_TRY(ResumedRun resumed, open_interrupted(options_.resume, true, results::Durability::kProcess));
    outcome_.sweep.directory = options_.resume;
    lock_ = std::move(resumed.lock);
    store_ = std::move(resumed.store);
    run_ = resumed.run;
    wall_s_before_ = resumed.head.wall_s;
    KVIST_TRY_VOID(run_progress_.take_over(*store_, run_, plan_));
    outcome_.sweep.levels_done = run_progress_.done();
    options_.progress(fmt::format("simulate {}: {} of {} levels are there already; results in {}", sweep_.name,
                                  outcome_.sweep.levels_done, outcome_.sweep.levels_planned, outcome_.sweep.directory));
    return {};
  }

  Result<void> prepare() {
    if (!options_.resume.empty()) return resume();
    const std::string& parent = options_.output_directory.empty() ? sweep_.output_directory : options_.output_directory;
    KVIST_TRY(outcome_.sweep.directory, make_output_folder(parent, sweep_.name));
    KVIST_TRY(lock_, FolderLock::take(outcome_.sweep.directory));
    const std::string path = (std::filesystem::path(outcome_.sweep.directory) / "results.sqlite").string();
    KVIST_TRY(store_, results::Store::open(path, results::Durability::kProcess));
    results::RunRecord head = run_head(sweep_);
    head.simulated = true;
    head.threads = threads();
    KVIST_TRY(run_, store_->begin_run(head));
    options_.progress(
        fmt::format("simulate {}: {}; results in {}", sweep_.name, describe_size(sweep_), outcome_.sweep.directory));
    return {};
  }

  [[nodiscard]] unsigned threads() const { return options_.threads == 0 ? available_threads() : options_.threads; }

  /// Of a small fleet a second thread makes nothing faster.
  [[nodiscard]] bool has_two_threads_for(std::size_t loads) const {
    return sweep_.deployment.workers.size() >= simulation::kLargeFleet && threads() >= 2 * loads;
  }

  /// Threads: one of several.
  void simulate(const PlannedLoad& load, bool second_thread) {
    if (given_up_) return;
    const double begun_s = thread_cpu_seconds();
    std::vector<TurnCounts> counts(load.levels.size());
    const auto done = simulate_and_store(load, second_thread, counts);
    const double cpu_s = thread_cpu_seconds() - begun_s + (done ? done->back().second_thread_s : 0);
    const std::scoped_lock lock(mutex_);
    if (!done) return note_failure(load, done.error());
    outcome_.speed.cpu_s += cpu_s;
    outcome_.speed.ahead += done->back().ahead;
    for (std::size_t i = 0; i < done->size(); ++i) {
      note_success(load.levels[i], (*done)[i], counts[i], cpu_s / static_cast<double>(done->size()));
    }
  }

  Result<std::vector<simulation::LevelOutcome>> simulate_and_store(const PlannedLoad& load, bool second_thread,
                                                                   std::vector<TurnCounts>& counts) {
    std::vector<std::int64_t> ids;
    std::vector<simulation::LevelPlan> levels;
    const spec::RoutingMode mode = *std::ranges::find(arms_, load.levels.front().mode, &spec::ArmSpec::arm)->mode;
    for (std::size_t i = 0; i < load.levels.size(); ++i) {
      const PlannedLevel& level = load.levels[i];
      KVIST_TRY(const std::int64_t id, begin_level(load.position + i, level));
      ids.push_back(id);
      levels.push_back(
          {.mode = mode, .concurrency = level.concurrency, .seed = level.seed, .second_thread = second_thread});
    }
    std::vector<workload::TraceOutcome> of_trace(load.levels.size(), workload::TraceOutcome(resolved_.input.trace));
    const auto sink = [&](std::size_t level, std::vector<workload::TurnSample> turns) -> Result<void> {
      if (given_up_) return fail(ErrorCode::kCancelled, "another level failed");
      if (options_.stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
      counts[level].add(turns);
      of_trace[level].add(turns);
      const std::scoped_lock lock(mutex_);
      return store_->add_turns(ids[level], turns);
    };
    workload::LoadInput input = resolved_.input;
    input.texts = arm_texts(sweep_, load.levels.front(), 0);
    KVIST_TRY(auto source, workload::make_turn_source(sweep_.workload, input, levels.front().concurrency,
                                                      levels.front().seed, TimePoint{}));
    spec::SweepSpec with_seed = resolved_.spec;
    with_seed.deployment.gateway.seed = gateway_seed(sweep_, load.levels.front().mode, levels.front().seed);
    KVIST_TRY(std::vector<simulation::LevelOutcome> outcomes,
              simulation::simulate_levels(with_seed, levels, sink, std::move(source)));
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      results::LevelRecord record = record_of(resolved_.spec, load.levels[i], outcomes[i]);
      std::ranges::move(of_trace[i].remarks(record.started, record.measure_to), std::back_inserter(record.remarks));
      const std::scoped_lock lock(mutex_);
      KVIST_TRY_VOID(store_->finish_level(ids[i], record));
      KVIST_TRY_VOID(note_progress(load.position + i, ids[i]));
    }
    return outcomes;
  }

  /// Requires: the lock.
  Result<void> note_progress(std::size_t position, std::int64_t id) {
    if (!sweep_.comparison.stop_when) return {};
    KVIST_TRY(const results::LevelRecord level, store_->load_level(id, {.timelines = false}));
    run_progress_.add(position, level);
    return {};
  }

  Result<std::int64_t> begin_level(std::size_t position, const PlannedLevel& level) {
    if (options_.stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
    results::LevelRecord head;
    head.mode = level.mode;
    head.concurrency = level.concurrency;
    head.repetition = level.repetition;
    head.seed = level.seed;
    const std::scoped_lock lock(mutex_);
    return store_->begin_level(run_, static_cast<std::int64_t>(position), head);
  }

  /// Of several failures, that of the earliest level counts. Failures that only follow from another one do not count.
  void note_failure(const PlannedLoad& load, Error error) {
    const bool follows = given_up_ && error.code == ErrorCode::kCancelled;
    given_up_ = true;
    if (follows || (outcome_.sweep.failure && failed_at_ < load.position)) return;
    failed_at_ = load.position;
    outcome_.sweep.failure = std::move(error).in(title_of(load.levels.front(), sweep_.method.repetitions));
  }

  void note_success(const PlannedLevel& level, const simulation::LevelOutcome& done, const TurnCounts& counts,
                    double cpu_s) {
    ++outcome_.sweep.levels_done;
    const double simulated_s = to_seconds(done.ended - done.started);
    SimulationSpeed& speed = outcome_.speed;
    speed.simulated_s += simulated_s;
    speed.output_tokens += done.output_tokens;
    speed.steps += done.steps;
    speed.events += done.events;
    options_.progress(fmt::format("{}: {} turns, {} failed{}, {:.0f} s in {:.2f} s",
                                  title_of(level, sweep_.method.repetitions), counts.turns, counts.failures.count(),
                                  counts.failures.count() > 0 ? " (" + counts.failures.text() + ")" : "", simulated_s,
                                  cpu_s));
  }

  Result<void> report() {
    const bool finished = !outcome_.sweep.failure && outcome_.sweep.levels_done == outcome_.sweep.levels_planned;
    KVIST_TRY_VOID(store_->finish_run(run_, finished ? net::utc_now() : "", wall_s_before_ + outcome_.speed.wall_s));
    if (outcome_.sweep.levels_done == 0) return {};
    return report_outcome(*store_, run_, sweep_, outcome_.sweep);
  }

  const spec::SweepSpec& sweep_;  // as written by the user, which is stored and reported
  const ResolvedSweep resolved_;  // with the settings of the profiles, which is simulated
  const SimulatedSweepOptions& options_;
  const std::vector<PlannedMode> plan_;
  const std::vector<spec::ArmSpec> arms_;
  const std::vector<PlannedLoad> loads_;  // refers to plan_
  double wall_s_before_ = 0;              // of an interrupted sweep
  std::int64_t run_ = 0;
  std::atomic<bool> given_up_ = false;  // a level failed, so the others end at their next batch of turns
  std::mutex mutex_;                    // guards what follows
  FolderLock lock_;
  std::unique_ptr<results::Store> store_;
  RunProgress run_progress_;
  std::size_t failed_at_ = 0;
  SimulatedSweepOutcome outcome_;
};

}  // namespace

Result<SimulatedSweepOutcome> simulate_sweep(const spec::SweepSpec& sweep, const SimulatedSweepOptions& options) {
  if (sweep.target.is_given()) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("the sweep measures {}: a running target cannot be simulated; describe it as a deployment",
                            sweep.target.url));
  }
  KVIST_TRY(ResolvedSweep resolved, resolve(sweep));
  for (const spec::WorkerSpec& worker : resolved.spec.deployment.workers) {
    if (!worker.cpu) continue;
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("worker {} computes its model (cpu): nobody knows how long that takes; to simulate it, give "
                    "it step_time or a profile in place of cpu",
                    worker.name));
  }
  return SimulatedSweep(sweep, std::move(resolved), options).run();
}

}  // namespace kvist::sweep

#include "kvist/simulation/level.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/engine/timed/timed_engine.h"
#include "kvist/level/level_procedure.h"
#include "kvist/simulation/clairvoyance.h"
#include "kvist/simulation/gateway_group.h"
#include "kvist/simulation/invariants.h"
#include "kvist/simulation/simulated_load.h"
#include "kvist/simulation/simulated_worker.h"
#include "kvist/simulation/threads/huge_pages.h"
#include "kvist/simulation/virtual_time.h"
#include "kvist/simulation/work_ahead.h"
#include "kvist/workload/load_driver.h"
#include "kvist/workload/load_input.h"

namespace kvist::simulation {

using level::LevelAction;
using level::LevelProcedure;
using level::LevelStep;
using level::LevelTimes;

namespace {

/// Turns kept until the sink gets them: few enough that memory stays flat, enough that a store writes in bulk.
constexpr std::size_t kSinkBatch = 256;

/// Turns in flight at once, at most; 0: a trace, which knows no limit.
std::uint32_t limit_of(const spec::WorkloadSpec& workload, const LevelPlan& plan) {
  return workload.trace.file.empty() ? workload::most_in_flight(workload, plan.concurrency) : 0;
}

/// One load from its start to its drain, through all its levels: carries out on the event queue what LevelProcedure
/// asks for, as sweep/level_runner.cc does on a live deployment.
class LoadRun {
 public:
  LoadRun(const spec::SweepSpec& sweep, std::span<const LevelPlan> levels, const LevelTurnSink& sink,
          workload::TurnSource& source)
      : sweep_(sweep),
        levels_(levels),
        sink_(sink),
        network_(time_, sweep.simulation),
        clairvoyance_(workers_, network_, time_),
        gateways_(sweep, levels.front().mode, levels.front().seed, levels.front().watch, tokenizer_, time_, network_,
                  clairvoyance_),
        ledger_(TimePoint{} + sweep.method.warmup,
                TimePoint{} + static_cast<Duration::rep>(levels.size()) * level::measuring_time(sweep.method),
                limit_of(sweep.workload, levels.front())),
        load_({.request_timeout = sweep.workload.request_timeout,
               .window = sweep.method.window,
               .worker_names = worker_names(sweep.deployment.workers),
               .keep_token_gaps = sweep.simulation.keep_token_gaps},
              source, time_, network_, ledger_),
        source_(source),
        procedure_(sweep.method, levels.size()) {}

  Result<void> add_workers();
  void start_second_thread();
  Result<std::vector<LevelOutcome>> run();

 private:
  /// Several gateways each see a part of a step, and mode clairvoyant looks into the engines' plans.
  [[nodiscard]] bool advances_runs() const {
    return sweep_.simulation.gateways.count == 1 && levels_.front().mode != spec::RoutingMode::kClairvoyant;
  }
  [[nodiscard]] const LevelPlan& plan() const { return levels_[outcomes_.size() - 1]; }
  [[nodiscard]] LevelOutcome& outcome() { return outcomes_.back(); }
  void dispatch(const Event& event);
  void begin_level();
  void end_level();
  Result<void> go_on();
  [[nodiscard]] bool is_done();
  Result<void> carry_out(LevelAction action);
  void take_snapshot();
  void on_drain_timeout();
  void schedule_changes();
  void read_workers();
  [[nodiscard]] bool is_idle() const;
  Result<void> hand_turns_on(std::size_t at_least);
  Result<void> hand_on_by_level(std::vector<workload::TurnSample> turns);
  void check_invariants() const;
  void require(const Violation& violation) const;
  void schedule(TimePoint at, EventKind kind) { time_.schedule(at, {.subject = 0, .worker = {}, .kind = kind}); }

  const spec::SweepSpec& sweep_;
  const std::span<const LevelPlan> levels_;
  const LevelTurnSink& sink_;
  const tokenizer::ByteTokenizer tokenizer_;
  VirtualTime time_;
  Network network_;
  std::vector<SimulatedWorker> workers_;
  Clairvoyance clairvoyance_;
  GatewayGroup gateways_;
  Ledger ledger_;
  SimulatedLoad load_;
  workload::TurnSource& source_;
  LevelProcedure procedure_;
  LevelAction action_;  // the current action
  bool snapshot_due_ = false;
  std::vector<LevelOutcome> outcomes_;  // of the levels that have begun; the last is in progress
  std::optional<WorkAhead> ahead_;      // none: engines are computed when their instant comes
  std::uint64_t events_before_ = 0;     // the level under way
  std::uint64_t output_tokens_before_ = 0;
};

Result<void> LoadRun::add_workers() {
  workers_.reserve(sweep_.deployment.workers.size());
  for (const spec::WorkerSpec& worker : sweep_.deployment.workers) {
    KVIST_TRY(std::unique_ptr<engine::EngineDriver> driver,
              engine::make_timed_engine(
                  worker, tokenizer_,
                  {.decode_runs = advances_runs(), .tells_tokens = !name_blocks_alike(sweep_.deployment)}));
    const WorkerId id(static_cast<std::uint32_t>(workers_.size()));
    workers_.emplace_back(id, std::move(driver), tokenizer_, time_, network_);
    if (levels_.front().mode == spec::RoutingMode::kClairvoyant && !sweep_.simulation.changes.empty())
      return fail(ErrorCode::kUnsupported, "mode clairvoyant knows nothing of changes to workers");
    if (levels_.front().mode == spec::RoutingMode::kClairvoyant && sweep_.simulation.gateways.count > 1)
      return fail(ErrorCode::kUnsupported, "mode clairvoyant knows nothing of other gateways");
    if (levels_.front().mode == spec::RoutingMode::kClairvoyant) KVIST_TRY_VOID(clairvoyance_.add_worker(worker));
  }
  if (levels_.front().second_thread && advances_runs()) start_second_thread();
  return {};
}

void LoadRun::start_second_thread() {
  try {
    ahead_.emplace(workers_, gateways_, network_);
  } catch (const std::system_error&) {
    return;
  }
  time_.tell(*ahead_);
}

Result<std::vector<LevelOutcome>> LoadRun::run() {
  KVIST_TRY_VOID(carry_out(procedure_.begin(time_.now())));
  KVIST_TRY_VOID(go_on());
  while (action_.step != LevelStep::kEnd) {
    KVIST_CHECK(time_.has_next(), fmt::format("seed {}: work is left and nothing will happen any more", plan().seed));
    const Event event = time_.next();
    if (ahead_) ahead_->order_certain(time_.now());
    dispatch(event);
    if (ahead_) ahead_->on_handled(event);
    KVIST_TRY_VOID(hand_turns_on(kSinkBatch));
    KVIST_TRY_VOID(go_on());
  }
  KVIST_TRY_VOID(hand_turns_on(1));
  if (auto refused =
          workload::refused_starts(sweep_.workload, source_.dropped_slots(), source_.held_back(time_.now()).sent_late,
                                   source_.conversations_started()))
    outcome().remarks.push_back(*std::move(refused));
  check_invariants();
  return std::move(outcomes_);
}

// Carries out actions until one needs a further event.
Result<void> LoadRun::go_on() {
  while (is_done()) KVIST_TRY_VOID(carry_out(procedure_.on_done(time_.now())));
  return {};
}

bool LoadRun::is_done() {
  switch (action_.step) {
    case LevelStep::kAwaitSnapshot:
      return std::exchange(snapshot_due_, false);
    case LevelStep::kDrain:
    case LevelStep::kBreakOff:
      return load_.in_flight() == 0;
    case LevelStep::kProveIdle:
      return is_idle();
    case LevelStep::kEnd:
      return false;
    case LevelStep::kReadCounters:
    case LevelStep::kStartLoad:
    case LevelStep::kRaiseLoad:
    case LevelStep::kTakeSnapshot:
    case LevelStep::kReadClient:  // which is never late in virtual time
      break;
  }
  return true;
}

Result<void> LoadRun::carry_out(LevelAction action) {
  action_ = std::move(action);
  switch (action_.step) {
    case LevelStep::kReadCounters:
      if (!outcomes_.empty()) end_level();
      break;
    case LevelStep::kStartLoad:
      begin_level();
      if (sweep_.simulation.timeline_period > Duration::zero()) schedule(time_.now(), EventKind::kTimeline);
      schedule_changes();
      load_.start();
      break;
    case LevelStep::kRaiseLoad:
      begin_level();
      ledger_.set_limit(limit_of(sweep_.workload, plan()));
      return load_.raise(plan().concurrency);
    case LevelStep::kTakeSnapshot:
      take_snapshot();
      break;
    case LevelStep::kDrain:
      load_.stop();
      schedule(action_.until, EventKind::kDrainTimeout);
      break;
    case LevelStep::kProveIdle:
    case LevelStep::kBreakOff:       // on_drain_timeout()
    case LevelStep::kAwaitSnapshot:  // its event was scheduled when the level began
    case LevelStep::kReadClient:
    case LevelStep::kEnd:
      break;
  }
  return {};
}

void LoadRun::begin_level() {
  LevelOutcome& level = outcomes_.emplace_back();
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    WorkerOutcome& worker = level.workers.emplace_back();
    worker.name = sweep_.deployment.workers[i].name;
    worker.before = workers_[i].driver().stats();
  }
  // All are scheduled at once, so that a snapshot comes before events of the same instant that the load schedules
  // later.
  for (const TimePoint at : procedure_.snapshot_times()) schedule(at, EventKind::kSnapshot);
}

void LoadRun::end_level() {
  LevelOutcome& level = outcome();
  const LevelTimes& times = procedure_.begun().back();
  level.started = times.started;
  level.measure_from = times.measure_from;
  level.measure_to = level.snapshots.back().at;
  level.ended = time_.now();
  if (ahead_) {
    level.ahead = ahead_->orders();
    level.second_thread_s = ahead_->cpu_seconds();
  }
  level.events = time_.events() - events_before_;
  level.output_tokens = load_.recorder().totals().output_tokens - output_tokens_before_;
  events_before_ += level.events;
  output_tokens_before_ += level.output_tokens;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    level.workers[i].total = workers_[i].driver().stats();
    level.steps += level.workers[i].total.steps - level.workers[i].before.steps;
  }
}

void LoadRun::dispatch(const Event& event) {
  switch (event.kind) {
    case EventKind::kLoadWakeup:
      return load_.on_wakeup(event);
    case EventKind::kClientDeadline:
      return load_.on_deadline();
    case EventKind::kHealthCheck:
      return gateways_.on_health_check(event, workers_[event.worker.value()].is_up());
    case EventKind::kRequestAtGateway:
      if (ahead_) ahead_->take_back(event);
      return gateways_.on_event(event);
    case EventKind::kClientGoneAtGateway:
    case EventKind::kGatewayDeadline:
    case EventKind::kLookAtHeld:
    case EventKind::kPeersDue:
    case EventKind::kPeerMessage:
    case EventKind::kRefusalAtGateway:
    case EventKind::kStepAtGateway:
    case EventKind::kKvEventsAtGateway:
    case EventKind::kWorkerLostAtGateway:
    case EventKind::kWorkerBackAtGateway:
      return gateways_.on_event(event);
    case EventKind::kRequestAtWorker:
      return workers_[event.worker.value()].on_request(network_.take_work(event));
    case EventKind::kAbortAtWorker:
      return workers_[event.worker.value()].on_abort(TurnId(event.subject));
    case EventKind::kWorkerWake:
      return workers_[event.worker.value()].on_wake();
    case EventKind::kWorkerTimer:
      return workers_[event.worker.value()].on_timer(event, ahead_ && ahead_->take_back(event));
    case EventKind::kStepAtClient:
      load_.on_step(network_.step_of(event));
      return network_.end_step(event);
    case EventKind::kRefusalAtClient:
      return load_.on_refusal(network_.take_refusal(event));
    case EventKind::kWorkerChange:
      return workers_[event.worker.value()].on_change(sweep_.simulation.changes[event.subject]);
    case EventKind::kWorkerBack:
      return workers_[event.worker.value()].on_back();
    case EventKind::kTimeline:
      return read_workers();
    case EventKind::kSnapshot:
      snapshot_due_ = true;
      return;
    case EventKind::kDrainTimeout:
      return on_drain_timeout();
  }
}

void LoadRun::schedule_changes() {
  const std::vector<std::string> names = worker_names(sweep_.deployment.workers);
  const std::vector<spec::WorkerChange>& changes = sweep_.simulation.changes;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto place = std::ranges::find(names, changes[i].worker) - names.begin();
    time_.schedule(
        time_.now() + changes[i].at,
        {.subject = i, .worker = WorkerId(static_cast<std::uint32_t>(place)), .kind = EventKind::kWorkerChange});
  }
}

void LoadRun::take_snapshot() {
  outcome().snapshots.push_back(load_.recorder().snapshot(time_.now(), load_.in_flight()));
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    outcome().workers[i].at_snapshots.push_back(workers_[i].driver().stats());
  }
}

void LoadRun::on_drain_timeout() {
  if (action_.step != LevelStep::kDrain) return;
  action_ = procedure_.on_overdue(load_.in_flight(), time_.now());
  outcome().remarks.push_back(action_.remark);
  load_.abandon();
}

void LoadRun::read_workers() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const engine::CoreStats stats = workers_[i].driver().stats();
    WorkerOutcome& worker = outcome().workers[i];
    worker.timeline.push_back({.at = time_.now(),
                               .running = stats.running,
                               .waiting = stats.waiting,
                               .kv_blocks_used = stats.kv_blocks_used,
                               .evictions = stats.evictions - worker.before.evictions,
                               .preemptions = stats.preemptions - worker.before.preemptions,
                               .prefill_backlog_tokens = stats.prefill_backlog_tokens,
                               .step_ms = static_cast<float>(to_milliseconds(workers_[i].take_longest_step()))});
  }
  schedule(time_.now() + sweep_.simulation.timeline_period, EventKind::kTimeline);
}

bool LoadRun::is_idle() const {
  if (load_.in_flight() > 0 || !gateways_.idle() || network_.in_transit() > 0) return false;
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    if ((ahead_ && ahead_->is_ahead(WorkerId(i))) || !workers_[i].idle()) return false;
  }
  return true;
}

Result<void> LoadRun::hand_turns_on(std::size_t at_least) {
  if (load_.recorder().kept_samples() < at_least) return {};
  if (levels_.size() == 1) return sink_(0, load_.recorder().take_samples());
  return hand_on_by_level(load_.recorder().take_samples());
}

Result<void> LoadRun::hand_on_by_level(std::vector<workload::TurnSample> turns) {
  std::vector<std::vector<workload::TurnSample>> of_level(outcomes_.size());
  for (workload::TurnSample& turn : turns) {
    of_level[procedure_.level_of(turn)].push_back(std::move(turn));
  }
  for (std::size_t level = 0; level < of_level.size(); ++level) {
    if (!of_level[level].empty()) KVIST_TRY_VOID(sink_(level, std::move(of_level[level])));
  }
  return {};
}

void LoadRun::check_invariants() const {
  require(ledger_.check());
  for (const SimulatedWorker& worker : workers_) require(check_drained(worker));
  for (const auto& gateway : gateways_.all()) require(check_drained(*gateway, workers_));
  require(check_tokens(ledger_, workers_));
}

void LoadRun::require(const Violation& violation) const {
  KVIST_CHECK(!violation, fmt::format("simulation of {} at {} users, seed {}: {}", spec::to_string(plan().mode),
                                      plan().concurrency, plan().seed, *violation));
}

Result<std::vector<LevelOutcome>> simulate(const spec::SweepSpec& sweep, std::span<const LevelPlan> levels,
                                           const LevelTurnSink& sink, workload::TurnSource& source) {
  LoadRun run(sweep, levels, sink, source);
  KVIST_TRY_VOID(run.add_workers());
  return run.run();
}

}  // namespace

Result<std::vector<LevelOutcome>> simulate_levels(const spec::SweepSpec& sweep, std::span<const LevelPlan> levels,
                                                  const LevelTurnSink& sink,
                                                  std::unique_ptr<workload::TurnSource> source) {
  KVIST_CHECK(!levels.empty(), "at least one level");
  for (const LevelPlan& level : levels) {
    KVIST_CHECK(level.mode == levels.front().mode && level.seed == levels.front().seed, "levels of one load");
  }
  if (!source) {
    KVIST_TRY_VOID(workload::check_workload(sweep.workload));
    if (levels.front().concurrency == 0) return fail(ErrorCode::kInvalidArgument, "concurrency: expected at least 1");
    source = std::make_unique<workload::LoadDriver>(sweep.workload, levels.front().concurrency, levels.front().seed,
                                                    TimePoint{});
  }
  use_huge_pages();
  auto outcomes = simulate(sweep, levels, sink, *source);
  if (sweep.deployment.workers.size() >= kLargeFleet) give_huge_pages_back();
  return outcomes;
}

Result<LevelOutcome> simulate_level(const spec::SweepSpec& sweep, const LevelPlan& level, const TurnSink& sink,
                                    std::unique_ptr<workload::TurnSource> source) {
  const LevelTurnSink only = [&sink](std::size_t, std::vector<workload::TurnSample> turns) {
    return sink(std::move(turns));
  };
  KVIST_TRY(std::vector<LevelOutcome> outcomes, simulate_levels(sweep, {&level, 1}, only, std::move(source)));
  return std::move(outcomes.front());
}

}  // namespace kvist::simulation

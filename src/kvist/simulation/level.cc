#include "kvist/simulation/level.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/base/check.h"
#include "kvist/engine/timed/timed_engine.h"
#include "kvist/simulation/invariants.h"
#include "kvist/simulation/simulated_gateway.h"
#include "kvist/simulation/simulated_load.h"
#include "kvist/simulation/simulated_worker.h"
#include "kvist/simulation/virtual_time.h"
#include "kvist/workload/load_driver.h"
#include "kvist/workload/load_input.h"

namespace kvist::simulation {
namespace {

/// Turns kept until the sink gets them: few enough that memory stays flat, enough that a store writes in bulk.
constexpr std::size_t kSinkBatch = 256;

std::vector<std::string> names_of(const std::vector<spec::WorkerSpec>& workers) {
  std::vector<std::string> names;
  names.reserve(workers.size());
  for (const spec::WorkerSpec& worker : workers) names.push_back(worker.name);
  return names;
}

/// Turns in flight at once, at most; 0: a trace, which knows no limit.
std::uint32_t limit_of(const spec::WorkloadSpec& workload, const LevelPlan& plan) {
  return workload.trace.file.empty() ? workload::most_in_flight(workload, plan.concurrency) : 0;
}

/// One level from start to drain: what sweep/level_runner.cc does with a live deployment.
class Level {
 public:
  Level(const spec::SweepSpec& sweep, const LevelPlan& plan, const TurnSink& sink, workload::TurnSource& source)
      : sweep_(sweep),
        plan_(plan),
        sink_(sink),
        network_(time_, sweep.simulation),
        gateway_(sweep.deployment, plan.mode, plan.seed, tokenizer_, time_, network_),
        measure_from_(TimePoint{} + sweep.method.warmup),
        measure_to_(measure_from_ + sweep.method.snapshots * sweep.method.snapshot_interval),
        ledger_(measure_from_, measure_to_, limit_of(sweep.workload, plan)),
        load_({.request_timeout = sweep.workload.request_timeout,
               .window = sweep.method.window,
               .worker_names = names_of(sweep.deployment.workers),
               .keep_token_gaps = sweep.simulation.keep_token_gaps},
              source, time_, network_, ledger_),
        source_(source) {}

  Result<void> add_workers();
  Result<LevelOutcome> run();

 private:
  void dispatch(const Event& event);
  void take_snapshot();
  void begin_drain();
  void break_off();
  void read_workers();
  [[nodiscard]] bool over() const;
  Result<void> hand_turns_on(std::size_t at_least);
  void check_invariants() const;
  void require(const Violation& violation) const;
  void schedule(TimePoint at, EventKind kind) { time_.schedule(at, {.subject = 0, .worker = {}, .kind = kind}); }

  const spec::SweepSpec& sweep_;
  const LevelPlan plan_;
  const TurnSink& sink_;
  const text::ByteTokenizer tokenizer_;
  VirtualTime time_;
  Network network_;
  SimulatedGateway gateway_;
  std::vector<SimulatedWorker> workers_;
  TimePoint measure_from_;
  TimePoint measure_to_;
  Ledger ledger_;
  SimulatedLoad load_;
  workload::TurnSource& source_;
  LevelOutcome outcome_;
};

Result<void> Level::add_workers() {
  workers_.reserve(sweep_.deployment.workers.size());
  outcome_.workers.reserve(sweep_.deployment.workers.size());
  for (const spec::WorkerSpec& worker : sweep_.deployment.workers) {
    KVIST_TRY(std::unique_ptr<engine::EngineDriver> driver, engine::make_timed_engine(worker, tokenizer_));
    const WorkerId id(static_cast<std::uint32_t>(workers_.size()));
    workers_.emplace_back(id, std::move(driver), tokenizer_, time_, network_);
    outcome_.workers.push_back({.name = worker.name, .at_snapshots = {}, .total = {}, .timeline = {}});
  }
  return {};
}

Result<LevelOutcome> Level::run() {
  outcome_.measure_from = measure_from_;
  outcome_.measure_to = measure_to_;
  for (std::uint32_t i = 1; i <= sweep_.method.snapshots; ++i) {
    schedule(measure_from_ + i * sweep_.method.snapshot_interval, EventKind::kSnapshot);
  }
  if (sweep_.simulation.timeline_period > Duration::zero()) schedule(time_.now(), EventKind::kTimeline);
  load_.start();
  while (!over()) {
    KVIST_CHECK(time_.has_next(), fmt::format("seed {}: work is left and nothing will happen any more", plan_.seed));
    dispatch(time_.next());
    KVIST_TRY_VOID(hand_turns_on(kSinkBatch));
  }
  KVIST_TRY_VOID(hand_turns_on(1));
  outcome_.ended = time_.now();
  outcome_.events = time_.events();
  outcome_.output_tokens = load_.recorder().totals().output_tokens;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    outcome_.workers[i].total = workers_[i].driver().stats();
    outcome_.steps += outcome_.workers[i].total.steps;
  }
  if (auto refused =
          workload::refused_starts(sweep_.workload, source_.dropped_slots(), source_.conversations_started()))
    outcome_.remarks.push_back(*std::move(refused));
  check_invariants();
  return std::move(outcome_);
}

void Level::dispatch(const Event& event) {
  switch (event.kind) {
    case EventKind::kLoadWakeup:
      return load_.on_wakeup(event);
    case EventKind::kClientDeadline:
      return load_.on_deadline();
    case EventKind::kRequestAtGateway:
      return gateway_.on_request(network_.take_request(event));
    case EventKind::kClientGoneAtGateway:
      return gateway_.on_client_gone(TurnId(event.subject));
    case EventKind::kGatewayDeadline:
      return gateway_.on_deadline();
    case EventKind::kHealthCheck:
      return gateway_.on_health_check(event.worker);
    case EventKind::kRequestAtWorker:
      return workers_[event.worker.value()].on_request(network_.take_work(event));
    case EventKind::kAbortAtWorker:
      return workers_[event.worker.value()].on_abort(TurnId(event.subject));
    case EventKind::kWorkerWake:
      return workers_[event.worker.value()].on_wake();
    case EventKind::kWorkerTimer:
      return workers_[event.worker.value()].on_timer(event);
    case EventKind::kRefusalAtGateway:
      return gateway_.on_refusal(network_.take_refusal(event));
    case EventKind::kStepAtGateway:
      return gateway_.on_step(network_.take_step(event));
    case EventKind::kStepAtClient:
      return load_.on_step(network_.take_step(event));
    case EventKind::kRefusalAtClient:
      return load_.on_refusal(network_.take_refusal(event));
    case EventKind::kKvEventsAtGateway:
      return gateway_.on_kv_events(event.worker, network_.take_kv_events(event));
    case EventKind::kTimeline:
      return read_workers();
    case EventKind::kSnapshot:
      return take_snapshot();
    case EventKind::kDrainTimeout:
      return break_off();
  }
}

void Level::take_snapshot() {
  outcome_.snapshots.push_back(load_.recorder().snapshot(time_.now(), load_.in_flight()));
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    outcome_.workers[i].at_snapshots.push_back(workers_[i].driver().stats());
  }
  if (outcome_.snapshots.size() == sweep_.method.snapshots) begin_drain();
}

void Level::begin_drain() {
  load_.stop();
  schedule(time_.now() + sweep_.method.drain_timeout, EventKind::kDrainTimeout);
}

void Level::break_off() {
  if (load_.in_flight() == 0) return;
  outcome_.remarks.push_back(fmt::format("{} turns had not ended {} s after the last snapshot and were broken off",
                                         load_.in_flight(), to_seconds(sweep_.method.drain_timeout)));
  load_.abandon();
}

void Level::read_workers() {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const engine::CoreStats stats = workers_[i].driver().stats();
    outcome_.workers[i].timeline.push_back(
        {.at = time_.now(),
         .running = stats.running,
         .waiting = stats.waiting,
         .kv_blocks_used = stats.kv_blocks_used,
         .evictions = stats.evictions,
         .preemptions = stats.preemptions,
         .prefill_backlog_tokens = stats.prefill_backlog_tokens,
         .step_ms = static_cast<float>(to_milliseconds(workers_[i].take_longest_step()))});
  }
  schedule(time_.now() + sweep_.simulation.timeline_period, EventKind::kTimeline);
}

bool Level::over() const {
  if (!source_.stopped() || load_.in_flight() > 0 || !gateway_.idle() || network_.in_transit() > 0) return false;
  for (const SimulatedWorker& worker : workers_) {
    if (!worker.idle()) return false;
  }
  return true;
}

Result<void> Level::hand_turns_on(std::size_t at_least) {
  if (load_.recorder().kept_samples() < at_least) return {};
  return sink_(load_.recorder().take_samples());
}

void Level::check_invariants() const {
  require(ledger_.check());
  for (const SimulatedWorker& worker : workers_) require(check_drained(worker));
  require(check_drained(gateway_, workers_));
  require(check_tokens(ledger_, workers_));
}

void Level::require(const Violation& violation) const {
  KVIST_CHECK(!violation, fmt::format("simulation of {} at {} users, seed {}: {}", spec::to_string(plan_.mode),
                                      plan_.concurrency, plan_.seed, *violation));
}

}  // namespace

Result<LevelOutcome> simulate_level(const spec::SweepSpec& sweep, const LevelPlan& level, const TurnSink& sink,
                                    std::unique_ptr<workload::TurnSource> source) {
  if (!source) {
    KVIST_TRY_VOID(workload::check_workload(sweep.workload));
    if (level.concurrency == 0) return fail(ErrorCode::kInvalidArgument, "concurrency: expected at least 1");
    source = std::make_unique<workload::LoadDriver>(sweep.workload, level.concurrency, level.seed, TimePoint{});
  }
  Level run(sweep, level, sink, *source);
  KVIST_TRY_VOID(run.add_workers());
  return run.run();
}

}  // namespace kvist::simulation

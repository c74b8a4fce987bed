// Simulates concurrency levels of one mode in virtual time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"
#include "kvist/simulation/decision_watch.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/spec/sweep.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::simulation {

/// From so many workers on a second thread is worth its processor: with 128 a level is as fast without it, with 256 a
/// seventh slower.
inline constexpr std::size_t kLargeFleet = 256;

/// A level of a sweep.
struct LevelPlan {
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::uint64_t seed = 0;
  const DecisionWatch* watch = nullptr;  ///< of its decisions; null: nobody looks. Requires: it outlives the run.
  /// A second thread computes engines and prompts ahead of time, which fleets from kLargeFleet on gain by. The outcome
  /// is the same. Several gateways, mode clairvoyant, and a process that gets no further thread go without.
  bool second_thread = false;
};

/// A worker at one instant. Counters are cumulative since the start of the level.
struct WorkerReading {
  TimePoint at;
  std::uint32_t running = 0;  ///< batch slots taken
  std::uint32_t waiting = 0;  ///< requests queued for a slot
  std::uint32_t kv_blocks_used = 0;
  std::uint64_t evictions = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prefill_backlog_tokens =
      0;              ///< uncached prompt tokens of waiting and running requests, not yet computed
  float step_ms = 0;  ///< the longest step that ended since the previous reading; 0: none did
};

/// One worker over the level.
struct WorkerOutcome {
  std::string name;
  engine::CoreStats before = {};                ///< when the level began
  std::vector<engine::CoreStats> at_snapshots;  ///< one reading per snapshot, as a live sweep scrapes them
  engine::CoreStats total;  ///< at the end of the level: when everything in flight had ended, or the next level began
  std::vector<WorkerReading> timeline;
};

/// The outcome of a level. Times are virtual; its load starts at TimePoint{}.
struct LevelOutcome {
  TimePoint started;
  TimePoint measure_from;
  TimePoint measure_to;
  TimePoint ended;  ///< when everything in flight had ended, or the next level began
  std::vector<workload::Snapshot> snapshots;
  std::vector<WorkerOutcome> workers;
  std::vector<std::string> remarks;
  std::uint64_t steps = 0;          ///< engine steps of all workers
  std::uint64_t output_tokens = 0;  ///< as the client received them
  std::uint64_t events = 0;         ///< of the event queue
  // Of the second thread, up to the end of the level, if there is one. Real, not virtual, so no two runs have the same.
  std::uint64_t ahead = 0;     ///< engine steps and prompts that were given to it
  double second_thread_s = 0;  ///< its processor time, waiting included
};

/// Receives finished turns in the order of their end, a batch at a time, so that memory stays flat.
using TurnSink = std::function<Result<void>(std::vector<workload::TurnSample> turns)>;

/// Simulates one level from cold caches to the last answer, on a deployment of its own. Deterministic: the same
/// arguments give the same outcome and the same samples, on any machine and any thread. Every invariant of
/// simulation/invariants.h is checked; a violation aborts with the seed. `sweep` must be resolved (perfmodel::resolve
/// on its workers). `source` drives the load, for example a trace; null: the sweep's own conversations. Errors: an
/// invalid step-time model, a failure of the sink.
[[nodiscard]] Result<LevelOutcome> simulate_level(const spec::SweepSpec& sweep, const LevelPlan& level,
                                                  const TurnSink& sink,
                                                  std::unique_ptr<workload::TurnSource> source = nullptr);

/// Outcome and sink for levels with one continuous load.
using LevelTurnSink = std::function<Result<void>(std::size_t level, std::vector<workload::TurnSample> turns)>;

/// Simulates several levels of one mode as one load on one deployment (spec::BetweenLevels::kContinue): after the last
/// snapshot of each but the last, more conversations join those that run, and the next level begins with its warm-up. A
/// turn belongs to the level in which it was sent; the sink gets each level's in the order of their end. Requires: at
/// least one level, all of one mode and seed, in ascending order. Otherwise like simulate_level().
[[nodiscard]] Result<std::vector<LevelOutcome>> simulate_levels(const spec::SweepSpec& sweep,
                                                                std::span<const LevelPlan> levels,
                                                                const LevelTurnSink& sink,
                                                                std::unique_ptr<workload::TurnSource> source = nullptr);

}  // namespace kvist::simulation

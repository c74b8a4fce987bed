#include "kvist/planning/level_evaluator.h"

#include <iterator>
#include <memory>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/results/records.h"

namespace kvist::planning {
namespace {

/// Null where the workload draws its conversations.
Result<std::unique_ptr<workload::TurnSource>> source_of(spec::WorkloadSpec workload, const workload::LoadInput& input,
                                                        const simulation::LevelPlan& level) {
  if (workload.trace.file.empty()) return nullptr;
  if (workload.trace.loop == spec::TraceLoop::kOpen) workload.trace.speed *= level.concurrency / 100.0;
  return workload::make_turn_source(workload, input, level.concurrency, level.seed, TimePoint{});
}

}  // namespace

Result<LevelSample> SimulatedEvaluator::evaluate(const spec::SweepSpec& sweep,
                                                 const simulation::LevelPlan& level) const {
  spec::SweepSpec lean = sweep;
  lean.simulation.keep_token_gaps = gaps_ == workload::TurnClock::Gaps::kKeep;
  lean.simulation.timeline_period = Duration(0);
  for (spec::WorkerSpec& worker : lean.deployment.workers) {
    KVIST_TRY(worker, perfmodel::resolve(worker));
  }
  results::LevelRecord record;
  const auto sink = [&record](std::vector<workload::TurnSample> turns) -> Result<void> {
    record.turns.insert(record.turns.end(), std::make_move_iterator(turns.begin()),
                        std::make_move_iterator(turns.end()));
    return {};
  };
  KVIST_TRY(auto source, source_of(lean.workload, input_, level));
  KVIST_TRY(simulation::LevelOutcome outcome, simulation::simulate_level(lean, level, sink, std::move(source)));
  record.mode = level.mode;
  record.concurrency = level.concurrency;
  record.seed = level.seed;
  record.started = outcome.started;
  record.measure_from = outcome.measure_from;
  record.measure_to = outcome.measure_to;
  record.snapshots = std::move(outcome.snapshots);
  LevelSample sample{.figures = judged_figures(record, lean)};
  if (!lean.workload.trace.file.empty()) sample.blocks = blocks_of(record, lean);
  return sample;
}

std::uint64_t level_seed(const spec::SweepSpec& sweep, std::uint32_t users, std::uint32_t repetition) {
  return mix_seed({sweep.workload.seed, seed_part("plan"), users, repetition});
}

}  // namespace kvist::planning

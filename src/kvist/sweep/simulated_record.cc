#include "kvist/sweep/simulated_record.h"

#include <algorithm>

#include "kvist/base/check.h"
#include "kvist/sweep/level_summary.h"

namespace kvist::sweep {
namespace {

/// The metrics page of a live worker with these figures.
deploy::WorkerMetrics metrics_of(const std::string& name, const engine::CoreStats& stats) {
  deploy::WorkerMetrics metrics;
  metrics.worker = name;
  metrics.running = stats.running;
  metrics.waiting = stats.waiting;
  if (stats.kv_blocks_total > 0) metrics.kv_usage = static_cast<double>(stats.kv_blocks_used) / stats.kv_blocks_total;
  metrics.prefix_query_tokens = static_cast<double>(stats.prefix_query_tokens);
  metrics.prefix_hit_tokens = static_cast<double>(stats.prefix_hit_tokens);
  metrics.prompt_tokens = static_cast<double>(stats.prompt_tokens);
  metrics.generated_tokens = static_cast<double>(stats.generated_tokens);
  metrics.preemptions = static_cast<double>(stats.preemptions);
  metrics.prefilled_tokens = static_cast<double>(stats.prefilled_tokens);
  metrics.evicted_blocks = static_cast<double>(stats.evictions);
  metrics.draft_tokens = static_cast<double>(stats.draft_tokens);
  metrics.accepted_draft_tokens = static_cast<double>(stats.accepted_draft_tokens);
  metrics.prefill_steps = static_cast<double>(stats.prefill_steps);
  metrics.mixed_steps = static_cast<double>(stats.mixed_steps);
  metrics.decode_steps = static_cast<double>(stats.steps - stats.prefill_steps - stats.mixed_steps);
  return metrics;
}

WorkerReadings readings_of(const simulation::LevelOutcome& outcome) {
  WorkerReadings readings;
  readings.during.resize(outcome.snapshots.size());
  for (const simulation::WorkerOutcome& worker : outcome.workers) {
    KVIST_CHECK(worker.at_snapshots.size() == outcome.snapshots.size(), "a reading per snapshot");
    readings.before.push_back(metrics_of(worker.name, worker.before));
    readings.after.push_back(metrics_of(worker.name, worker.total));
    for (std::size_t i = 0; i < worker.at_snapshots.size(); ++i) {
      readings.during[i].push_back(metrics_of(worker.name, worker.at_snapshots[i]));
    }
  }
  return readings;
}

results::WorkerTimeline timeline_of(const simulation::WorkerOutcome& worker, const spec::WorkerSpec& spec) {
  results::WorkerTimeline timeline{
      .worker = worker.name, .kv_blocks = spec.kv_blocks, .max_batch_size = spec.max_batch_size, .points = {}};
  timeline.points.reserve(worker.timeline.size());
  for (const simulation::WorkerReading& reading : worker.timeline) {
    timeline.points.push_back({.at = reading.at,
                               .running = reading.running,
                               .waiting = reading.waiting,
                               .kv_blocks_used = reading.kv_blocks_used,
                               .evictions = reading.evictions,
                               .preemptions = reading.preemptions,
                               .prefill_backlog_tokens = reading.prefill_backlog_tokens,
                               .step_ms = reading.step_ms});
  }
  return timeline;
}

}  // namespace

results::LevelRecord record_of(const spec::SweepSpec& sweep, const PlannedLevel& level,
                               const simulation::LevelOutcome& outcome) {
  const std::vector<spec::WorkerSpec>& workers = sweep.deployment.workers;
  KVIST_CHECK(outcome.workers.size() == workers.size(), "an outcome per worker");
  results::LevelRecord record;
  record.mode = level.mode;
  record.concurrency = level.concurrency;
  record.repetition = level.repetition;
  record.seed = level.seed;
  record.started = outcome.started;
  record.measure_from = outcome.measure_from;
  record.measure_to = outcome.measure_to;
  record.snapshots = outcome.snapshots;
  record.remarks = outcome.remarks;
  record.workers = summarise_workers(readings_of(outcome), record.remarks);
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (!outcome.workers[i].timeline.empty()) record.timelines.push_back(timeline_of(outcome.workers[i], workers[i]));
  }
  return record;
}

}  // namespace kvist::sweep

#include "kvist/sweep/level_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/analysis/client_certificate.h"
#include "kvist/base/check.h"
#include "kvist/base/statistics.h"

namespace kvist::sweep {
namespace {

using deploy::WorkerMetrics;

std::uint64_t difference(double before, double after) {
  return static_cast<std::uint64_t>(std::llround(std::max(0.0, after - before)));
}

/// The counters of kvist's worker. If they are missing, they are derived from those that every engine has: tokens that
/// were queried and not found had to be prefilled.
double prefilled(const WorkerMetrics& metrics) {
  return metrics.prefilled_tokens.value_or(metrics.prefix_query_tokens - metrics.prefix_hit_tokens);
}

std::optional<double> acceptance_rate(const WorkerMetrics& before, const WorkerMetrics& after) {
  if (!after.draft_tokens || !after.accepted_draft_tokens) return std::nullopt;
  const double drafted = *after.draft_tokens - before.draft_tokens.value_or(0);
  if (drafted <= 0) return std::nullopt;
  return (*after.accepted_draft_tokens - before.accepted_draft_tokens.value_or(0)) / drafted;
}

std::optional<results::StepCounts> steps(const WorkerMetrics& before, const WorkerMetrics& after) {
  if (!after.prefill_steps || !after.mixed_steps || !after.decode_steps) return std::nullopt;
  return results::StepCounts{.prefill = difference(before.prefill_steps.value_or(0), *after.prefill_steps),
                             .mixed = difference(before.mixed_steps.value_or(0), *after.mixed_steps),
                             .decode = difference(before.decode_steps.value_or(0), *after.decode_steps)};
}

results::WorkerLevelRecord counters(const WorkerMetrics& before, const WorkerMetrics& after) {
  results::WorkerLevelRecord record;
  record.worker = after.worker;
  record.prefix_query_tokens = difference(before.prefix_query_tokens, after.prefix_query_tokens);
  record.prefix_hit_tokens = difference(before.prefix_hit_tokens, after.prefix_hit_tokens);
  record.prompt_tokens = difference(before.prompt_tokens, after.prompt_tokens);
  record.prefilled_tokens = difference(prefilled(before), prefilled(after));
  record.generated_tokens = difference(before.generated_tokens, after.generated_tokens);
  if (after.evicted_blocks) {
    record.evictions = difference(before.evicted_blocks.value_or(0), *after.evicted_blocks);
  }
  record.preemptions = difference(before.preemptions, after.preemptions);
  record.steps = steps(before, after);
  record.acceptance_rate = acceptance_rate(before, after);
  return record;
}

/// The delays that count as pauses.
std::vector<analysis::PauseLaw::Bin> pause_bins(const loadgen::WatchedPauses& watched) {
  std::vector<analysis::PauseLaw::Bin> bins;
  const auto all = static_cast<double>(watched.late.count());
  for (const auto& [at_most, count] : watched.late.buckets()) {
    if (at_most <= loadgen::kLeastPause) continue;
    bins.push_back({.ms = to_milliseconds(at_most), .share = static_cast<double>(count) / all});
  }
  return bins;
}

results::ClientPauses summarise_pauses(const loadgen::WatchedPauses& watched, Duration elapsed) {
  results::ClientPauses pauses{.count = watched.pauses,
                               .p99_ms = to_milliseconds(watched.late.quantile(0.99)),
                               .p999_ms = to_milliseconds(watched.late.quantile(0.999)),
                               .max_ms = to_milliseconds(watched.late.max()),
                               .real_time = watched.real_time};
  for (const auto& [ms, share] : pause_bins(watched)) pauses.share += share;
  if (elapsed > Duration(0)) pauses.cpu_share = watched.cpu_seconds / to_seconds(elapsed);
  return pauses;
}

/// The pauses to take into account. A watcher that has to wait for its processor like everybody else sees pauses even
/// where no hypervisor takes any time; those delays are in the stamps of packets already.
analysis::PauseLaw pauses_in(const loadgen::ClientLoad& load) {
  if (!load.pauses || (!load.pauses->real_time && load.steal_share == 0.0)) return {};
  return {pause_bins(*load.pauses), load.pauses->pauses};
}

}  // namespace

std::vector<results::WorkerLevelRecord> summarise_workers(const WorkerReadings& readings,
                                                          std::vector<std::string>& remarks) {
  KVIST_CHECK(readings.before.size() == readings.after.size(), "readings of different fleets");
  std::vector<results::WorkerLevelRecord> records;
  for (std::size_t i = 0; i < readings.after.size(); ++i) {
    const WorkerMetrics& after = readings.after[i];
    const bool restarted = readings.before[i].process_start_time_s != after.process_start_time_s;
    WorkerMetrics fresh;
    fresh.worker = after.worker;
    results::WorkerLevelRecord record = counters(restarted ? fresh : readings.before[i], after);
    if (restarted) {
      record.restarts = 1;
      remarks.push_back(fmt::format("{} restarted: its counters are those since then", after.worker));
    }
    double running = 0;
    for (const auto& reading : readings.during) {
      record.kv_usage_max = std::max(record.kv_usage_max, reading.at(i).kv_usage);
      record.waiting_max = std::max(record.waiting_max, reading.at(i).waiting);
      running += reading.at(i).running;
    }
    if (!readings.during.empty()) record.running_mean = running / static_cast<double>(readings.during.size());
    records.push_back(std::move(record));
  }
  return records;
}

results::ClientHealth summarise_client(const loadgen::ClientLoad& load, Duration elapsed,
                                       const results::LevelRecord& level) {
  results::ClientHealth health;
  health.loop_delay_p99_ms = load.loop_delay_p99_ms;
  health.loop_delay_max_ms = load.loop_delay_max_ms;
  if (elapsed > Duration(0)) health.cpu_share = load.cpu_seconds / to_seconds(elapsed);
  std::vector<double> delays;
  for (const workload::TurnSample& turn : level.turns) {
    // A turn that was never sent has no delay, only a failure.
    if (turn.sent != TimePoint{}) delays.push_back(to_milliseconds(turn.sent - std::max(turn.ready, turn.intended)));
  }
  health.send_delay_p99_ms = describe(std::move(delays)).p99;
  health.certificate = analysis::certify(level, pauses_in(load));
  if (health.certificate) {
    results::ClientCertificate& certificate = *health.certificate;
    certificate.loop_stalls = load.loop_stalls;
    certificate.loop_stalled_ms = load.loop_stalled_ms;
    certificate.steal_share = load.steal_share;
    if (load.pauses) certificate.pauses = summarise_pauses(*load.pauses, elapsed);
    if (load.run_queue_seconds && elapsed > Duration(0)) {
      certificate.run_queue_share = *load.run_queue_seconds / to_seconds(elapsed);
    }
  }
  return health;
}

}  // namespace kvist::sweep

#include "kvist/loadgen/load_merge.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

namespace kvist::loadgen {
namespace {

void add_rates(const Progress& part, Progress& all) {
  all.succeeded += part.succeeded;
  all.failed += part.failed;
  all.samples_refused += part.samples_refused;
  all.window.in_flight += part.window.in_flight;
  all.window.output_tokens_per_s += part.window.output_tokens_per_s;
  all.window.turns_per_s += part.window.turns_per_s;
  all.window.failed_per_s += part.window.failed_per_s;
  all.window.conversation_starts_per_s += part.window.conversation_starts_per_s;
}

/// The mean of the values that are known.
std::optional<double> mean_of(const std::vector<Progress>& parts,
                              const std::function<std::optional<double>(const Progress&)>& value) {
  double sum = 0;
  int known = 0;
  for (const Progress& part : parts) {
    if (const std::optional<double> one = value(part)) {
      sum += *one;
      ++known;
    }
  }
  return known > 0 ? std::optional(sum / known) : std::nullopt;
}

void keep_worst(std::optional<double>& most, const std::optional<double>& one) {
  if (one) most = std::max(most.value_or(0), *one);
}

/// Pauses are a machine's: the worse of two machines'.
void keep_worse(std::optional<WatchedPauses>& worst, const std::optional<WatchedPauses>& one) {
  if (one && (!worst || one->late.quantile(0.99) > worst->late.quantile(0.99))) worst = one;
}

}  // namespace

Progress merge_progress(const std::vector<Progress>& parts, TimePoint now) {
  Progress all;
  for (const Progress& part : parts) add_rates(part, all);
  workload::Snapshot& window = all.window;
  window.at = now;
  const double failed = window.failed_per_s;
  window.error_pct = failed > 0 ? 100 * failed / (window.turns_per_s + failed) : 0;
  for (const auto member :
       {&workload::Snapshot::ttft_p50_ms, &workload::Snapshot::ttft_p95_ms, &workload::Snapshot::tpot_p50_ms,
        &workload::Snapshot::tpot_p95_ms, &workload::Snapshot::itl_p50_ms, &workload::Snapshot::itl_p95_ms,
        &workload::Snapshot::latency_p50_ms, &workload::Snapshot::latency_p95_ms}) {
    window.*member = mean_of(parts, [member](const Progress& part) { return part.window.*member; });
  }
  all.itl_p50_ms = mean_of(parts, [](const Progress& part) { return part.itl_p50_ms; });
  all.itl_p95_ms = mean_of(parts, [](const Progress& part) { return part.itl_p95_ms; });
  return all;
}

void add_client_load(const ClientLoad& part, ClientLoad& all) {
  all.loop_delay_p99_ms = std::max(all.loop_delay_p99_ms, part.loop_delay_p99_ms);
  all.loop_delay_max_ms = std::max(all.loop_delay_max_ms, part.loop_delay_max_ms);
  all.loop_stalls += part.loop_stalls;
  all.loop_stalled_ms += part.loop_stalled_ms;
  all.cpu_seconds = std::max(all.cpu_seconds, part.cpu_seconds);  // threads have that of their process
  keep_worst(all.run_queue_seconds, part.run_queue_seconds);
  keep_worst(all.steal_share, part.steal_share);
  keep_worse(all.pauses, part.pauses);
  if (!all.refused_starts) all.refused_starts = part.refused_starts;
  if (!part.loops.empty()) {
    all.loops.insert(all.loops.end(), part.loops.begin(), part.loops.end());
    return;
  }
  all.loops.push_back({.loop_delay_p99_ms = part.loop_delay_p99_ms,
                       .loop_delay_max_ms = part.loop_delay_max_ms,
                       .loop_stalls = part.loop_stalls,
                       .loop_stalled_ms = part.loop_stalled_ms,
                       .run_queue_seconds = part.run_queue_seconds});
}

void add_totals(const workload::RecorderTotals& part, workload::RecorderTotals& all) {
  using workload::RecorderTotals;
  for (const auto count :
       {&RecorderTotals::turns_succeeded, &RecorderTotals::turns_failed, &RecorderTotals::turns_abandoned,
        &RecorderTotals::conversations_started, &RecorderTotals::output_tokens, &RecorderTotals::missing_usage,
        &RecorderTotals::samples_refused}) {
    all.*count += part.*count;
  }
}

workload::LoadBatch merge_batches(std::vector<workload::LoadBatch> parts) {
  workload::LoadBatch all;
  const auto append = [](auto& part, auto& list) {
    list.insert(list.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  };
  for (workload::LoadBatch& part : parts) {
    append(part.first_tokens, all.first_tokens);
    append(part.chunks, all.chunks);
    append(part.gaps_ms, all.gaps_ms);
    append(part.conversation_starts, all.conversation_starts);
    append(part.started, all.started);
    append(part.ended, all.ended);
    all.lost += part.lost;
  }
  std::ranges::stable_sort(all.first_tokens, {}, &workload::LoadBatch::FirstToken::at);
  std::ranges::stable_sort(all.chunks, {}, &workload::LoadBatch::Chunks::at);
  std::ranges::stable_sort(all.conversation_starts);
  std::ranges::stable_sort(all.started, {}, &workload::LoadBatch::StartedTurn::at);
  std::ranges::stable_sort(all.ended, {}, [](const workload::LoadBatch::EndedTurn& turn) { return turn.sample.ended; });
  return all;
}

workload::LoadBatch take_until(workload::LoadBatch& batch, TimePoint until) {
  workload::LoadBatch taken;
  const auto take = [until](auto& from, auto& to, const auto& instant_of) {
    const auto end = std::ranges::find_if(from, [&](const auto& entry) { return instant_of(entry) > until; });
    to.assign(std::make_move_iterator(from.begin()), std::make_move_iterator(end));
    from.erase(from.begin(), end);
  };
  const auto at = [](const auto& entry) { return entry.at; };
  take(batch.first_tokens, taken.first_tokens, at);
  take(batch.chunks, taken.chunks, at);
  take(batch.conversation_starts, taken.conversation_starts, [](TimePoint start) { return start; });
  take(batch.started, taken.started, at);
  take(batch.ended, taken.ended, [](const workload::LoadBatch::EndedTurn& turn) { return turn.sample.ended; });
  taken.gaps_ms = std::exchange(batch.gaps_ms, {});
  taken.lost = std::exchange(batch.lost, 0);
  return taken;
}

void add_samples(std::vector<workload::TurnSample> part, std::vector<workload::TurnSample>& all) {
  all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
}

void sort_samples(std::vector<workload::TurnSample>& all) {
  std::ranges::stable_sort(all, {}, &workload::TurnSample::ended);
}

}  // namespace kvist::loadgen

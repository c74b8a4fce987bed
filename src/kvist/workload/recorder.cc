#include "kvist/workload/recorder.h"

#include <utility>

namespace kvist::workload {
namespace {

std::size_t bytes_of(const TurnSample& sample) {
  return sizeof(TurnSample) + sample.error.capacity() + sample.worker.capacity() +
         (sample.gaps_ms.capacity() + sample.late_ms.capacity() + sample.unsure_ms.capacity()) * sizeof(float);
}

}  // namespace

Recorder::Recorder(Duration window, RecorderLimits limits)
    : window_(window),
      limits_(limits),
      series_{Series{WindowedSummary(window)}, Series{WindowedSummary(window)}, Series{WindowedSummary(window)},
              Series{WindowedSummary(window)}},
      rates_(window),
      gaps_(window) {}

void Recorder::begin_run() {
  for (Series& s : series_) s.window = WindowedSummary(window_);
  rates_ = Rates(window_);
  gaps_ = WindowedHistogram(window_);
  samples_.clear();
  kept_bytes_ = 0;
}

void Recorder::on_conversation_started(TimePoint now) {
  rates_.starts.add(now);
  ++totals_.conversations_started;
}

void Recorder::on_first_token(TimePoint now, Duration ttft) {
  observe(LatencyMetric::kTtft, now, to_milliseconds(ttft));
}

void Recorder::on_content_chunks(TimePoint now, std::uint32_t chunks) {
  add_output_tokens(now, chunks);
}

void Recorder::on_gaps(TimePoint now, std::span<const float> gaps_ms) {
  for (const float gap : gaps_ms) {
    gaps_.observe(now, static_cast<double>(gap));
    gap_sum_ms_ += static_cast<double>(gap);
  }
  gap_count_ += gaps_ms.size();
}

void Recorder::on_turn_finished(TurnSample sample, TimePoint now) {
  count_outcome(sample, now);
  if (sample.outcome == TurnOutcome::kSucceeded) {
    observe(LatencyMetric::kLatency, now, sample.latency_ms());
    if (const std::optional<double> tpot = sample.tpot_ms()) observe(LatencyMetric::kTpot, now, *tpot);
    if (const std::optional<double> itl = sample.itl_ms()) observe(LatencyMetric::kItl, now, *itl);
  }
  keep(std::move(sample));
}

Snapshot Recorder::snapshot(TimePoint now, std::uint32_t in_flight, Duration within) const {
  const auto quantile = [&](LatencyMetric metric, double q) { return series(metric).window.quantile(now, q, within); };
  const double succeeded = rates_.succeeded.per_second(now, within);
  const double failed = rates_.failed.per_second(now, within);
  return {.at = now,
          .ttft_p50_ms = quantile(LatencyMetric::kTtft, 0.50),
          .ttft_p95_ms = quantile(LatencyMetric::kTtft, 0.95),
          .tpot_p50_ms = quantile(LatencyMetric::kTpot, 0.50),
          .tpot_p95_ms = quantile(LatencyMetric::kTpot, 0.95),
          .itl_p50_ms = quantile(LatencyMetric::kItl, 0.50),
          .itl_p95_ms = quantile(LatencyMetric::kItl, 0.95),
          .latency_p50_ms = quantile(LatencyMetric::kLatency, 0.50),
          .latency_p95_ms = quantile(LatencyMetric::kLatency, 0.95),
          .output_tokens_per_s = rates_.output_tokens.per_second(now, within),
          .turns_per_s = succeeded,
          .conversation_starts_per_s = rates_.starts.per_second(now, within),
          .failed_per_s = failed,
          .error_pct = failed > 0 ? 100 * failed / (succeeded + failed) : 0,
          .in_flight = in_flight};
}

std::optional<double> Recorder::quantile_ms(LatencyMetric metric, TimePoint now, double q) const {
  return series(metric).window.quantile(now, q);
}

std::vector<TurnSample> Recorder::take_samples() {
  kept_bytes_ = 0;
  return std::exchange(samples_, {});
}

void Recorder::observe(LatencyMetric metric, TimePoint now, double ms) {
  Series& s = series(metric);
  s.window.observe(now, ms);
  ++s.count;
  s.sum_ms += ms;
}

void Recorder::count_outcome(const TurnSample& sample, TimePoint now) {
  switch (sample.outcome) {
    case TurnOutcome::kSucceeded:
      ++totals_.turns_succeeded;
      rates_.succeeded.add(now);
      if (!sample.has_usage()) ++totals_.missing_usage;
      if (sample.completion_tokens > sample.chunks) add_output_tokens(now, sample.completion_tokens - sample.chunks);
      break;
    case TurnOutcome::kFailed:
      ++totals_.turns_failed;
      rates_.failed.add(now);
      break;
    case TurnOutcome::kAbandoned:
      ++totals_.turns_abandoned;
      break;
  }
}

void Recorder::add_output_tokens(TimePoint now, std::uint32_t tokens) {
  rates_.output_tokens.add(now, tokens);
  totals_.output_tokens += tokens;
}

void Recorder::keep(TurnSample sample) {
  // A vector that grew may have twice the capacity that it needs. It is only copied if that saves much.
  for (std::vector<float>* const list : {&sample.gaps_ms, &sample.late_ms, &sample.unsure_ms}) {
    if (list->capacity() > list->size() + list->size() / 2) list->shrink_to_fit();
  }
  const std::size_t bytes = bytes_of(sample);
  if (samples_.size() >= limits_.samples || kept_bytes_ + bytes > limits_.bytes) {
    ++totals_.samples_refused;
    return;
  }
  kept_bytes_ += bytes;
  samples_.push_back(std::move(sample));
}

}  // namespace kvist::workload

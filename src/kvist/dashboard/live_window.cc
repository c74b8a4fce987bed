#include "kvist/dashboard/live_window.h"

#include <algorithm>

namespace kvist::dashboard {
namespace {

/// The load generator keeps the samples.
constexpr workload::RecorderLimits kNoSamples{.samples = 0, .bytes = 0};

}  // namespace

LiveWindow::LiveWindow()
    : recorder_(kLiveWindow, kNoSamples), prompt_tokens_(kLiveWindow), cached_tokens_(kLiveWindow) {}

void LiveWindow::begin_run() {
  recorder_.begin_run();
  prompt_tokens_ = WindowedRate(kLiveWindow);
  cached_tokens_ = WindowedRate(kLiveWindow);
  reports_cached_ = false;
}

void LiveWindow::add(const workload::LoadBatch& batch, TimePoint now) {
  for (const TimePoint at : batch.conversation_starts) recorder_.on_conversation_started(at);
  for (const auto& [at, ttft] : batch.first_tokens) recorder_.on_first_token(at, ttft);
  for (const auto& [at, count] : batch.chunks) recorder_.on_content_chunks(at, count);
  recorder_.on_gaps(now, batch.gaps_ms);
  for (const workload::LoadBatch::EndedTurn& ended : batch.ended) {
    const workload::TurnSample& sample = ended.sample;
    // An end may be read a little later than the next one's.
    last_end_ = std::max(last_end_, sample.ended);
    if (sample.outcome == workload::TurnOutcome::kSucceeded && sample.has_usage()) {
      prompt_tokens_.add(last_end_, sample.prompt_tokens);
      cached_tokens_.add(last_end_, sample.cached_tokens);
      reports_cached_ = reports_cached_ || sample.reports_cached || sample.cached_tokens > 0;
    }
    recorder_.on_turn_finished(sample, last_end_);
  }
}

LiveFigures LiveWindow::figures(TimePoint now, std::uint32_t in_flight, Duration since_start) const {
  const workload::Snapshot snapshot = recorder_.snapshot(now, in_flight);
  LiveFigures figures;
  const auto set = [&](Live which, std::optional<double> value) { figures[index_of(which)] = value; };
  set(Live::kTtftP50, snapshot.ttft_p50_ms);
  set(Live::kTtftP95, snapshot.ttft_p95_ms);
  set(Live::kTpotP50, snapshot.tpot_p50_ms);
  set(Live::kTpotP95, snapshot.tpot_p95_ms);
  set(Live::kItlP50, recorder_.gap_quantile_ms(now, 0.50));
  set(Live::kItlP95, recorder_.gap_quantile_ms(now, 0.95));
  set(Live::kLatencyP50, snapshot.latency_p50_ms);
  set(Live::kLatencyP95, snapshot.latency_p95_ms);
  const Duration covered = std::clamp<Duration>(since_start, std::chrono::seconds(1), kLiveWindow);
  const double stretch = to_seconds(kLiveWindow) / to_seconds(covered);
  set(Live::kOutputTokens, snapshot.output_tokens_per_s * stretch);
  set(Live::kTurns, snapshot.turns_per_s * stretch);
  set(Live::kConversationStarts, snapshot.conversation_starts_per_s * stretch);
  const bool any_ended = snapshot.turns_per_s > 0 || snapshot.failed_per_s > 0;
  set(Live::kErrorPct, any_ended ? std::optional(snapshot.error_pct) : std::nullopt);
  const double prompts = prompt_tokens_.per_second(now);
  if (prompts > 0 && reports_cached_) set(Live::kHitRatePct, 100 * cached_tokens_.per_second(now) / prompts);
  set(Live::kInFlight, in_flight);
  return figures;
}

}  // namespace kvist::dashboard

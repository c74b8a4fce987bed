#include "kvist/workload/past_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/statistics.h"

namespace kvist::workload {
namespace {

std::optional<double> quantile(std::vector<double>& values, double q) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  return quantile_of_sorted(values, q);
}

/// What one turn adds.
class Window {
 public:
  Window(TimePoint at, Duration window) : at_(at), from_(at - window), seconds_(to_seconds(window)) {}

  void add(const TurnSample& turn) {
    const TimePoint begun = turn.handed == TimePoint{} ? turn.intended : turn.handed;
    if (turn.turn == 0 && has(begun)) ++starts_;
    if (begun <= at_ && turn.ended > at_) ++in_flight_;
    if (turn.chunks > 0) add_chunks(turn);
    if (has(turn.ended)) add_end(turn);
  }

  [[nodiscard]] Snapshot snapshot() {
    return {
        .at = at_,
        .ttft_p50_ms = quantile(ttft_, 0.50),
        .ttft_p95_ms = quantile(ttft_, 0.95),
        .tpot_p50_ms = quantile(tpot_, 0.50),
        .tpot_p95_ms = quantile(tpot_, 0.95),
        .itl_p50_ms = quantile(itl_, 0.50),
        .itl_p95_ms = quantile(itl_, 0.95),
        .latency_p50_ms = quantile(latency_, 0.50),
        .latency_p95_ms = quantile(latency_, 0.95),
        .output_tokens_per_s = static_cast<double>(tokens_) / seconds_,
        .turns_per_s = static_cast<double>(succeeded_) / seconds_,
        .conversation_starts_per_s = static_cast<double>(starts_) / seconds_,
        .failed_per_s = static_cast<double>(failed_) / seconds_,
        .error_pct = failed_ > 0 ? 100 * static_cast<double>(failed_) / static_cast<double>(succeeded_ + failed_) : 0,
        .in_flight = in_flight_};
  }

 private:
  [[nodiscard]] bool has(TimePoint at) const { return at > from_ && at <= at_; }

  void add_chunks(const TurnSample& turn) {
    TimePoint at = turn.first_token;
    if (has(at)) {
      ttft_.push_back(turn.ttft_ms());
      ++tokens_;
    }
    for (const float gap : turn.gaps_ms) {
      at += from_milliseconds(static_cast<double>(gap));
      if (has(at)) ++tokens_;
    }
  }

  void add_end(const TurnSample& turn) {
    if (turn.outcome == TurnOutcome::kAbandoned) return;
    if (turn.outcome == TurnOutcome::kFailed) {
      ++failed_;
      return;
    }
    ++succeeded_;
    // Tokens that came without a chunk of their own are known when the turn ends.
    if (turn.completion_tokens > turn.chunks) tokens_ += turn.completion_tokens - turn.chunks;
    latency_.push_back(turn.latency_ms());
    if (const std::optional<double> tpot = turn.tpot_ms()) tpot_.push_back(*tpot);
    if (const std::optional<double> itl = turn.itl_ms()) itl_.push_back(*itl);
  }

  TimePoint at_;
  TimePoint from_;
  double seconds_;
  std::vector<double> ttft_, tpot_, itl_, latency_;
  std::uint64_t tokens_ = 0;
  std::uint64_t starts_ = 0;
  std::uint64_t succeeded_ = 0;
  std::uint64_t failed_ = 0;
  std::uint32_t in_flight_ = 0;
};

}  // namespace

Snapshot past_snapshot(std::span<const TurnSample> turns, TimePoint at, Duration window) {
  Window seen(at, window);
  for (const TurnSample& turn : turns) seen.add(turn);
  return seen.snapshot();
}

}  // namespace kvist::workload

// The figures of one level: those of the published method, and exact ones over all samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/client_verdict.h"
#include "kvist/analysis/exact_percentiles.h"
#include "kvist/analysis/pair_check.h"
#include "kvist/analysis/turn_groups.h"
#include "kvist/base/statistics.h"
#include "kvist/results/records.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// A mean over the snapshots that have a value; nothing if none has.
struct SnapshotMean {
  std::optional<double> mean;
  std::size_t snapshots = 0;  ///< number of snapshots that have a value
};

/// The published method: each quantile and rate is computed at each snapshot over the window before it, and the results
/// are averaged.
struct PublishedFigures {
  SnapshotMean ttft_p50_ms, ttft_p95_ms;
  SnapshotMean tpot_p50_ms, tpot_p95_ms;
  SnapshotMean itl_p50_ms, itl_p95_ms;
  SnapshotMean latency_p50_ms, latency_p95_ms;
  SnapshotMean output_tokens_per_s;
  SnapshotMean turns_per_s;
  SnapshotMean conversation_starts_per_s;
  SnapshotMean error_pct;
};

/// Exact figures of one measurement; for several repetitions the mean of each figure (the sum of counts, and the
/// outermost min and max). The percentiles are over all successful turns sent within [measure_from, measure_to]; the
/// rates over what happened within that window. Without a window (both ends equal) the rates are nothing.
struct ExactFigures {
  Distribution ttft_ms;
  Distribution tpot_ms;              ///< turns with at least two tokens
  Distribution itl_ms;               ///< all token gaps pooled; without samples if gaps were not kept
  Distribution itl_request_mean_ms;  ///< one value per turn: the mean of its gaps
  Distribution latency_ms;
  Distribution ttft_from_schedule_ms;  ///< since the turn was due; without samples where turns have no schedule
  Distribution latency_from_schedule_ms;
  double window_s = 0;
  /// The rates lack the turns that the level before sent and that ended in this one (spec::BetweenLevels::kContinue).
  bool lacks_earlier_turns = false;
  /// A turn's tokens count as spread evenly over its content chunks, or between its first and last token if gaps were
  /// not kept.
  std::optional<double> output_tokens_per_s;
  std::optional<double> turns_per_s;  ///< turns that ended, with or without success
  std::optional<double> conversation_starts_per_s;
  std::optional<double> goodput_per_s;  ///< turns that ended within the method's limits, from when they were due where
                                        ///< they have a schedule; nothing without limits
  std::optional<double> good_pct;       ///< of the turns that ended, successful or not, and can be judged
};

/// Cached tokens as a share of all prompt tokens, over the whole level including warm-up and drain, because the
/// workers' counters include them: by the usage that the client got, and by the workers' counters.
struct HitRate {
  std::uint64_t client_prompt_tokens = 0;
  std::uint64_t client_cached_tokens = 0;
  std::uint64_t worker_query_tokens = 0;
  std::uint64_t worker_hit_tokens = 0;
  std::optional<double> client_pct;
  std::optional<double>
      turn_mean_pct;  ///< mean over turns of each one's cached / prompt tokens: short prompts weigh more
  std::optional<double> workers_pct;
  std::optional<double> difference_points;  ///< client minus workers, in percentage points
};

/// Turns of the whole level by outcome, and of the measuring window.
struct TurnCounts {
  std::size_t succeeded = 0;
  std::size_t failed = 0;
  std::size_t abandoned = 0;
};

/// One worker's share of the level's turns, as reported by the gateway.
struct WorkerShare {
  std::string worker;
  std::size_t turns = 0;
  double share = 0;  ///< of all turns that name a worker, 0 to 1
};

/// The router's predictions of cached tokens against usage, over successful turns with a prediction.
struct PredictedCache {
  std::size_t turns = 0;
  std::uint64_t predicted_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::optional<double> mean_absolute_error_tokens;
};

/// Everything that a report contains about one level in one mode. Plain values, computed once.
struct LevelAnalysis {
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  PublishedFigures published;
  ExactFigures exact;
  TurnCounts all_turns;
  TurnCounts window_turns;          ///< sent within the measuring window
  std::optional<double> error_pct;  ///< failed / (failed + succeeded) of the window's turns
  bool excluded = false;            ///< error_pct above the method's limit
  HitRate hit_rate;
  std::optional<std::uint64_t> prefilled_tokens;  ///< by the workers; nothing without workers' counters
  std::vector<WorkerShare> worker_shares;         ///< in the order of the records, then by name
  std::optional<double> imbalance;                ///< busiest worker's turns over the mean; 1 = even
  PredictedCache predicted;
  ClientVerdict client;
  std::optional<CacheBounds> cache_bounds;  ///< what the caches could have saved; nothing: not known, or not asked for
  std::vector<TurnGroup> by_turn;           ///< the window's turns by their place in the conversation
  std::vector<TurnGroup> by_prompt;         ///< and by the length of their prompts
  FirstPrompts first_prompts;               ///< to tell whether another measurement drove the same conversations
  std::vector<std::string> objections;      ///< why it must not be compared (pair_check.h)
  PercentileReplicates replicates = {};     ///< of the intervals; empty where analyse() alone was called
  std::vector<double> sorted_ttft_ms;       ///< the samples behind exact.ttft_ms, for the distribution plot
};

/// Whether a turn is among those over which the exact percentiles are: successful and sent within the measuring window.
[[nodiscard]] bool counts_for_percentiles(const results::LevelRecord& level, const workload::TurnSample& turn);
/// Instants of events that did not happen are zero: even a successful turn may have had no content.
[[nodiscard]] inline bool has_first_token(const workload::TurnSample& turn) {
  return turn.first_token != TimePoint{};
}

/// Takes time linear in the level's samples, and keeps none of them except the sorted TTFTs.
[[nodiscard]] LevelAnalysis analyse(const results::LevelRecord& level, const spec::MethodSpec& method,
                                    Schedule schedule = Schedule::kNone);

}  // namespace kvist::analysis

// The figures that the dashboard shows over time, and their keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kvist/spec/figure_keys.h"

namespace kvist::dashboard {

/// Figures of the load as a whole. The order is that of kLiveKeys.
enum class Live : std::uint8_t {
  kTtftP50,
  kTtftP95,
  kTpotP50,
  kTpotP95,
  kItlP50,
  kItlP95,
  kLatencyP50,
  kLatencyP95,
  kOutputTokens,
  kTurns,
  kConversationStarts,
  kErrorPct,
  kHitRatePct,
  kInFlight,
  kQueued,
  kImbalance,
};
inline constexpr std::array<std::string_view, 16> kLiveKeys = {"ttft_p50_ms",
                                                               "ttft_p95_ms",
                                                               "tpot_p50_ms",
                                                               "tpot_p95_ms",
                                                               "itl_p50_ms",
                                                               "itl_p95_ms",
                                                               "latency_p50_ms",
                                                               "latency_p95_ms",
                                                               "output_tokens_per_s",
                                                               "turns_per_s",
                                                               "conversation_starts_per_s",
                                                               "error_pct",
                                                               "hit_rate_pct",
                                                               "in_flight",
                                                               "queued",
                                                               "imbalance"};
inline constexpr std::size_t kLiveFigures = kLiveKeys.size();
using LiveFigures = std::array<std::optional<double>, kLiveFigures>;

[[nodiscard]] constexpr std::size_t index_of(Live figure) {
  return static_cast<std::size_t>(figure);
}

/// Figures of a worker. The order is that of kWorkerKeys.
enum class WorkerFigure : std::uint8_t {
  kSlotsUsed,
  kQueue,
  kInFlight,
  kKvBlocksUsed,
  kEvictions,
  kHitRatePct,
  kStepMs,
  kPrefillBacklog,
  kAcceptancePct,
  kOutputTokens,
  kSharePct,
};
inline constexpr std::array<std::string_view, 11> kWorkerKeys = {"slots_used",
                                                                 "queue",
                                                                 "in_flight",
                                                                 "kv_blocks_used",
                                                                 "evictions_per_s",
                                                                 "hit_rate_pct",
                                                                 "step_ms",
                                                                 "prefill_backlog_tokens",
                                                                 "acceptance_rate_pct",
                                                                 "output_tokens_per_s",
                                                                 "share_pct"};
inline constexpr std::size_t kWorkerFigures = kWorkerKeys.size();
using WorkerFigures = std::array<std::optional<double>, kWorkerFigures>;

[[nodiscard]] constexpr std::size_t index_of(WorkerFigure figure) {
  return static_cast<std::size_t>(figure);
}

/// A figure of levels that is also shown live.
struct MeasuredFigure {
  spec::Headline headline;
  Live live;
};
inline constexpr std::array<MeasuredFigure, 13> kMeasured = {
    {{spec::Headline::kTtftP50, Live::kTtftP50},
     {spec::Headline::kTtftP95, Live::kTtftP95},
     {spec::Headline::kTpotP50, Live::kTpotP50},
     {spec::Headline::kTpotP95, Live::kTpotP95},
     {spec::Headline::kItlP50, Live::kItlP50},
     {spec::Headline::kItlP95, Live::kItlP95},
     {spec::Headline::kLatencyP50, Live::kLatencyP50},
     {spec::Headline::kLatencyP95, Live::kLatencyP95},
     {spec::Headline::kThroughput, Live::kOutputTokens},
     {spec::Headline::kTurnRate, Live::kTurns},
     {spec::Headline::kConversationRate, Live::kConversationStarts},
     {spec::Headline::kErrorPct, Live::kErrorPct},
     {spec::Headline::kHitRatePct, Live::kHitRatePct}}};
/// Nothing for a figure that is known of whole levels only.
[[nodiscard]] constexpr std::optional<Live> live_of(spec::Headline figure) {
  for (const MeasuredFigure& measured : kMeasured)
    if (measured.headline == figure) return measured.live;
  return std::nullopt;
}

/// The figure of that key; nothing for an unknown one.
[[nodiscard]] constexpr std::optional<std::size_t> find_live(std::string_view key) {
  for (std::size_t i = 0; i < kLiveFigures; ++i)
    if (kLiveKeys[i] == key) return i;
  return std::nullopt;
}

}  // namespace kvist::dashboard

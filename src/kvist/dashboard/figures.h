// The figures that the dashboard shows over time, and their keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

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

/// The figure of that key; nothing for an unknown one.
[[nodiscard]] constexpr std::optional<std::size_t> find_live(std::string_view key) {
  for (std::size_t i = 0; i < kLiveFigures; ++i)
    if (kLiveKeys[i] == key) return i;
  return std::nullopt;
}

}  // namespace kvist::dashboard

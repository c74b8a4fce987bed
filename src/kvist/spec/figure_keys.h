// The figures by which levels are reported, limited and compared, and their keys in files and options.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvist::spec {

/// What each figure is, analysis::headline_figures() says. The order is that of kFigureKeys.
enum class Headline : std::uint8_t {
  kTtftP50,
  kTtftP95,
  kTtftP99,
  kTpotP50,
  kTpotP95,
  kItlP50,
  kItlP95,
  kItlP99,
  kLatencyP50,
  kLatencyP95,
  kThroughput,  ///< output tokens per second
  kTurnRate,
  kConversationRate,
  kErrorPct,
  kHitRatePct,
  kGoodput,
  kGoodPct,
  kTtftFromScheduleP50,  ///< from the instant at which a turn was due; only where turns have a schedule
  kTtftFromScheduleP95,
  kTtftFromScheduleP99,
  kLatencyFromScheduleP50,
  kLatencyFromScheduleP95,
};

/// A key ends with the unit of its figure: _ms, _per_s, _pct.
inline constexpr std::array<std::string_view, 22> kFigureKeys = {"ttft_p50_ms",
                                                                 "ttft_p95_ms",
                                                                 "ttft_p99_ms",
                                                                 "tpot_p50_ms",
                                                                 "tpot_p95_ms",
                                                                 "itl_p50_ms",
                                                                 "itl_p95_ms",
                                                                 "itl_p99_ms",
                                                                 "latency_p50_ms",
                                                                 "latency_p95_ms",
                                                                 "output_tokens_per_s",
                                                                 "turns_per_s",
                                                                 "conversation_starts_per_s",
                                                                 "error_pct",
                                                                 "kv_hit_rate_pct",
                                                                 "goodput_per_s",
                                                                 "good_pct",
                                                                 "ttft_from_schedule_p50_ms",
                                                                 "ttft_from_schedule_p95_ms",
                                                                 "ttft_from_schedule_p99_ms",
                                                                 "latency_from_schedule_p50_ms",
                                                                 "latency_from_schedule_p95_ms"};
inline constexpr std::size_t kFigures = kFigureKeys.size();

[[nodiscard]] constexpr std::string_view key_of(Headline figure) {
  return kFigureKeys[static_cast<std::size_t>(figure)];
}

/// Nothing for an unknown key.
[[nodiscard]] constexpr std::optional<Headline> find_figure(std::string_view key) {
  const auto* const found = std::ranges::find(kFigureKeys, key);
  if (found == kFigureKeys.end()) return std::nullopt;
  return static_cast<Headline>(found - kFigureKeys.begin());
}

/// Counts turns within the limits of MethodSpec::goodput, so there is none without these.
[[nodiscard]] constexpr bool needs_limits(Headline figure) {
  return figure == Headline::kGoodput || figure == Headline::kGoodPct;
}

/// Is counted from when a turn was due by a schedule, which a closed loop does not have.
[[nodiscard]] constexpr bool needs_schedule(Headline figure) {
  return figure >= Headline::kTtftFromScheduleP50;
}

}  // namespace kvist::spec

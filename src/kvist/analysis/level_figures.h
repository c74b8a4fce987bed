// The figures of a level as functions, for tables, JSON and plots. A LevelFigure is a pointer to one of them.
#pragma once

#include <optional>

#include "kvist/analysis/level_analysis.h"
#include "kvist/render/figures.h"

namespace kvist::analysis::figure {

// The published method.
[[nodiscard]] inline std::optional<double> ttft_p50_ms(const LevelAnalysis& a) {
  return a.published.ttft_p50_ms.mean;
}
[[nodiscard]] inline std::optional<double> ttft_p95_ms(const LevelAnalysis& a) {
  return a.published.ttft_p95_ms.mean;
}
[[nodiscard]] inline std::optional<double> tpot_p50_ms(const LevelAnalysis& a) {
  return a.published.tpot_p50_ms.mean;
}
[[nodiscard]] inline std::optional<double> tpot_p95_ms(const LevelAnalysis& a) {
  return a.published.tpot_p95_ms.mean;
}
[[nodiscard]] inline std::optional<double> latency_p50_ms(const LevelAnalysis& a) {
  return a.published.latency_p50_ms.mean;
}
[[nodiscard]] inline std::optional<double> latency_p95_ms(const LevelAnalysis& a) {
  return a.published.latency_p95_ms.mean;
}
[[nodiscard]] inline std::optional<double> tops(const LevelAnalysis& a) {
  return a.published.output_tokens_per_s.mean;
}
/// Turns per second: what the published "Actual RPS (Conversation Starts/s)" counts.
[[nodiscard]] inline std::optional<double> actual_rps(const LevelAnalysis& a) {
  return a.published.turns_per_s.mean;
}
[[nodiscard]] inline std::optional<double> conversation_starts_per_s(const LevelAnalysis& a) {
  return a.published.conversation_starts_per_s.mean;
}

// Counted over the level.
[[nodiscard]] inline std::optional<double> kv_hit_rate_pct(const LevelAnalysis& a) {
  return a.hit_rate.client_pct;
}
[[nodiscard]] inline std::optional<double> error_pct(const LevelAnalysis& a) {
  return a.error_pct;
}

}  // namespace kvist::analysis::figure

// The catalogue of a level's published figures: their keys, what they are called wherever they are printed, and their
// formats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/analysis/repetitions.h"

namespace kvist::analysis {

/// The published figures: quantiles and rates by the published method, read at each snapshot and averaged; hit and
/// error rates counted over the level.
enum class Metric : std::uint8_t {
  kTtftP50,
  kTtftP95,
  kTpotP50,
  kTpotP95,
  kLatencyP50,
  kLatencyP95,
  kThroughput,  ///< output tokens per second
  kTurnRate,    ///< turns per second: the published "Actual RPS"
  kErrorPct,
  kHitRatePct,
};

/// One figure. It has several titles, because the published documents, a terminal, a sentence and a plot name it
/// differently.
struct NamedFigure {
  Metric metric;
  std::string_view key;             ///< "ttft_p50_ms"
  std::string_view title;           ///< in tables, as published: "TTFT p50", "TOPS"
  std::string_view mode_title;      ///< behind a mode's name in the published tables of two modes: "Hit Rate"
  std::string_view terminal_title;  ///< "Tokens/s"
  std::string_view plain_title;     ///< in sentences: "TTFT p50", "throughput"
  std::string_view plain_unit;      ///< of the figure itself: "ms", "%", "tokens/s", "turns/s"
  std::string_view plot_title;      ///< "End-to-end latency p50"
  std::string_view plot_unit;       ///< of the figure as drawn: "ms", "s", "%", "output tokens/s", "turns/s"
  double plot_factor = 1;           ///< from the figure itself to the drawn one
  LevelFigure figure;
  int decimals;                                  ///< in JSON
  std::string (*format)(std::optional<double>);  ///< in tables, as published
};

inline constexpr std::size_t kPublishedFigures = 10;
/// All, in the order in which plans, fits and plots list them.
inline constexpr std::array<Metric, kPublishedFigures> kMetrics = {
    Metric::kTtftP50,    Metric::kTtftP95,    Metric::kTpotP50,  Metric::kTpotP95,  Metric::kLatencyP50,
    Metric::kLatencyP95, Metric::kThroughput, Metric::kTurnRate, Metric::kErrorPct, Metric::kHitRatePct};
/// The figures of the published JSON, in its order.
[[nodiscard]] const std::array<NamedFigure, kPublishedFigures>& published_figures();
[[nodiscard]] const NamedFigure& figure_of(Metric metric);
/// Null for a key that is not published.
[[nodiscard]] const NamedFigure* find_figure(std::string_view key);

}  // namespace kvist::analysis

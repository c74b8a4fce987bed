// Figures of a level by the keys of the published JSON, with what is needed to print them.
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

struct NamedFigure {
  Metric metric;
  std::string_view key;    ///< "ttft_p50_ms"
  std::string_view title;  ///< as published: "TTFT p50", "TOPS"
  std::string_view unit;   ///< of the figure as printed: "ms", "s", "%", "tokens/s", "turns/s"
  LevelFigure figure;
  int decimals;                                  ///< in JSON
  std::string (*format)(std::optional<double>);  ///< in tables, as published
  std::string_view plain_title;                  ///< in sentences: "TTFT p50", "throughput"
  std::string_view plain_unit;                   ///< of the figure itself: "ms", "%", "tokens/s", "turns/s"
};

inline constexpr std::size_t kPublishedFigures = 10;
/// The figures of the published JSON, in its order.
[[nodiscard]] const std::array<NamedFigure, kPublishedFigures>& published_figures();
[[nodiscard]] const NamedFigure& figure_of(Metric metric);
/// Null for a key that is not published.
[[nodiscard]] const NamedFigure* find_figure(std::string_view key);

}  // namespace kvist::analysis

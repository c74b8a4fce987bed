// The figures of a level that plans and fits use, by name.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "kvist/analysis/level_analysis.h"

namespace kvist::planning {

/// A figure by the published method: quantiles and rates of each snapshot, averaged.
enum class Metric : std::size_t {
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
inline constexpr std::size_t kMetricCount = 10;

/// The names and format of a metric.
struct MetricInfo {
  Metric metric;
  std::string_view key;    ///< of the published JSON: "ttft_p95_ms"
  std::string_view title;  ///< for tables: "TTFT p95"
  std::string_view unit;
};
inline constexpr std::array<MetricInfo, kMetricCount> kMetrics = {{
    {Metric::kTtftP50, "ttft_p50_ms", "TTFT p50", "ms"},
    {Metric::kTtftP95, "ttft_p95_ms", "TTFT p95", "ms"},
    {Metric::kTpotP50, "tpot_p50_ms", "TPOT p50", "ms"},
    {Metric::kTpotP95, "tpot_p95_ms", "TPOT p95", "ms"},
    {Metric::kLatencyP50, "latency_p50_ms", "latency p50", "ms"},
    {Metric::kLatencyP95, "latency_p95_ms", "latency p95", "ms"},
    {Metric::kThroughput, "tops", "throughput", "tokens/s"},
    {Metric::kTurnRate, "actual_rps", "turns", "turns/s"},
    {Metric::kErrorPct, "error_pct", "errors", "%"},
    {Metric::kHitRatePct, "kv_hit_rate_pct", "hit rate", "%"},
}};
[[nodiscard]] constexpr const MetricInfo& info_of(Metric metric) {
  return kMetrics[static_cast<std::size_t>(metric)];
}

/// One value per metric; nothing if a level does not have the figure (no turn ended in any window).
class LevelFigures {
 public:
  [[nodiscard]] std::optional<double>& operator[](Metric metric) { return values_[static_cast<std::size_t>(metric)]; }
  [[nodiscard]] const std::optional<double>& operator[](Metric metric) const {
    return values_[static_cast<std::size_t>(metric)];
  }
  bool operator==(const LevelFigures&) const = default;

 private:
  std::array<std::optional<double>, kMetricCount> values_ = {};
};

/// The figures of a level's analysis.
[[nodiscard]] LevelFigures figures_of(const analysis::LevelAnalysis& analysis);

}  // namespace kvist::planning

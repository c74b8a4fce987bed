#include "kvist/analysis/named_figures.h"

#include <algorithm>

#include "kvist/analysis/level_figures.h"
#include "kvist/render/figures.h"

namespace kvist::analysis {
namespace {

std::string format_tenths(std::optional<double> value) {
  return render::format_fixed(value, 1);
}
std::string format_hundredths(std::optional<double> value) {
  return render::format_fixed(value, 2);
}

}  // namespace

const std::array<NamedFigure, kPublishedFigures>& published_figures() {
  static constexpr std::array<NamedFigure, kPublishedFigures> kFigures = {{
      {Metric::kTtftP50, "ttft_p50_ms", "TTFT p50", "ms", figure::ttft_p50_ms, 3, render::format_ms, "TTFT p50", "ms"},
      {Metric::kTtftP95, "ttft_p95_ms", "TTFT p95", "ms", figure::ttft_p95_ms, 3, render::format_ms, "TTFT p95", "ms"},
      {Metric::kHitRatePct, "kv_hit_rate_pct", "KV hit rate", "%", figure::kv_hit_rate_pct, 3, render::format_pct,
       "hit rate", "%"},
      {Metric::kErrorPct, "error_pct", "Error %", "%", figure::error_pct, 3, render::format_pct, "errors", "%"},
      {Metric::kTurnRate, "actual_rps", "Actual RPS", "turns/s", figure::actual_rps, 6, format_hundredths, "turns",
       "turns/s"},
      {Metric::kThroughput, "tops", "TOPS", "tokens/s", figure::tops, 6, format_tenths, "throughput", "tokens/s"},
      {Metric::kTpotP50, "tpot_p50_ms", "TPOT p50", "ms", figure::tpot_p50_ms, 3, render::format_ms, "TPOT p50", "ms"},
      {Metric::kTpotP95, "tpot_p95_ms", "TPOT p95", "ms", figure::tpot_p95_ms, 3, render::format_ms, "TPOT p95", "ms"},
      {Metric::kLatencyP50, "latency_p50_ms", "Latency p50", "s", figure::latency_p50_ms, 3, render::format_ms_as_s,
       "latency p50", "ms"},
      {Metric::kLatencyP95, "latency_p95_ms", "Latency p95", "s", figure::latency_p95_ms, 3, render::format_ms_as_s,
       "latency p95", "ms"},
  }};
  return kFigures;
}

const NamedFigure& figure_of(Metric metric) {
  return *std::ranges::find(published_figures(), metric, &NamedFigure::metric);
}

const NamedFigure* find_figure(std::string_view key) {
  const auto found = std::ranges::find(published_figures(), key, &NamedFigure::key);
  return found == published_figures().end() ? nullptr : &*found;
}

}  // namespace kvist::analysis

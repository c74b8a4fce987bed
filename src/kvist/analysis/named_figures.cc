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

/// TTFT and TPOT, which have one title everywhere.
constexpr NamedFigure time_of_tokens(Metric metric, std::string_view key, std::string_view title, LevelFigure figure) {
  return {.metric = metric,
          .key = key,
          .title = title,
          .mode_title = title,
          .terminal_title = title,
          .plain_title = title,
          .plain_unit = "ms",
          .plot_title = title,
          .plot_unit = "ms",
          .figure = figure,
          .decimals = 3,
          .format = render::format_ms};
}

struct LatencyTitles {
  std::string_view title;
  std::string_view plain;
  std::string_view plot;
};
/// Of whole answers, so that seconds are easier to read.
constexpr NamedFigure latency(Metric metric, std::string_view key, const LatencyTitles& titles, LevelFigure figure) {
  return {.metric = metric,
          .key = key,
          .title = titles.title,
          .mode_title = titles.title,
          .terminal_title = titles.title,
          .plain_title = titles.plain,
          .plain_unit = "ms",
          .plot_title = titles.plot,
          .plot_unit = "s",
          .plot_factor = 1e-3,
          .figure = figure,
          .decimals = 3,
          .format = render::format_ms_as_s};
}

}  // namespace

const std::array<NamedFigure, kPublishedFigures>& published_figures() {
  static constexpr std::array<NamedFigure, kPublishedFigures> kFigures = {{
      time_of_tokens(Metric::kTtftP50, "ttft_p50_ms", "TTFT p50", figure::ttft_p50_ms),
      time_of_tokens(Metric::kTtftP95, "ttft_p95_ms", "TTFT p95", figure::ttft_p95_ms),
      {.metric = Metric::kHitRatePct,
       .key = "kv_hit_rate_pct",
       .title = "KV hit rate",
       .mode_title = "Hit Rate",
       .terminal_title = "Hit rate",
       .plain_title = "hit rate",
       .plain_unit = "%",
       .plot_title = "KV hit rate",
       .plot_unit = "%",
       .figure = figure::kv_hit_rate_pct,
       .decimals = 3,
       .format = render::format_pct},
      {.metric = Metric::kErrorPct,
       .key = "error_pct",
       .title = "Error %",
       .mode_title = "Error %",
       .terminal_title = "Error %",
       .plain_title = "errors",
       .plain_unit = "%",
       .plot_title = "Errors",
       .plot_unit = "%",
       .figure = figure::error_pct,
       .decimals = 3,
       .format = render::format_pct},
      {.metric = Metric::kTurnRate,
       .key = "actual_rps",
       .title = "Actual RPS",
       .mode_title = "Actual RPS",
       .terminal_title = "Turns/s",
       .plain_title = "turns",
       .plain_unit = "turns/s",
       .plot_title = "Turns per second",
       .plot_unit = "turns/s",
       .figure = figure::actual_rps,
       .decimals = 6,
       .format = format_hundredths},
      {.metric = Metric::kThroughput,
       .key = "tops",
       .title = "TOPS",
       .mode_title = "TOPS",
       .terminal_title = "Tokens/s",
       .plain_title = "throughput",
       .plain_unit = "tokens/s",
       .plot_title = "Throughput",
       .plot_unit = "output tokens/s",
       .figure = figure::tops,
       .decimals = 6,
       .format = format_tenths},
      time_of_tokens(Metric::kTpotP50, "tpot_p50_ms", "TPOT p50", figure::tpot_p50_ms),
      time_of_tokens(Metric::kTpotP95, "tpot_p95_ms", "TPOT p95", figure::tpot_p95_ms),
      latency(Metric::kLatencyP50, "latency_p50_ms", {"Latency p50", "latency p50", "End-to-end latency p50"},
              figure::latency_p50_ms),
      latency(Metric::kLatencyP95, "latency_p95_ms", {"Latency p95", "latency p95", "End-to-end latency p95"},
              figure::latency_p95_ms),
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

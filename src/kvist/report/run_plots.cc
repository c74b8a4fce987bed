#include "kvist/report/run_plots.h"

#include <fmt/format.h>

#include "kvist/analysis/mode_names.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/render/figures.h"

namespace kvist::report {
namespace {

using analysis::Metric;

/// How one figure is drawn: its values times `factor`, in `unit`.
struct Line {
  const char* suffix;  // behind the mode's name, "" for none
  analysis::LevelFigure figure;
  bool dashed = false;
};

struct LevelPlot {
  std::string_view title;
  std::string_view unit;
  double factor;
  std::vector<Line> lines;
};

LevelPlot plot_of(Metric metric) {
  const analysis::NamedFigure& named = analysis::figure_of(metric);
  return {named.plot_title, named.plot_unit, named.plot_factor, {{"", named.figure}}};
}

/// Two figures of one unit in one plot.
LevelPlot quantile_plot(std::string_view title, Metric p50, Metric p95) {
  const analysis::NamedFigure& named = analysis::figure_of(p50);
  return {title,
          named.plot_unit,
          named.plot_factor,
          {{" p50", named.figure}, {" p95", analysis::figure_of(p95).figure, true}}};
}

std::optional<double> prefilled_tokens(const analysis::LevelAnalysis& a) {
  if (!a.prefilled_tokens) return std::nullopt;
  return static_cast<double>(*a.prefilled_tokens);
}

render::PlotSeries series_of(const analysis::RunAnalysis& analysis, std::size_t mode_number, const LevelPlot& plot,
                             const Line& line) {
  const spec::RoutingMode mode = analysis.modes()[mode_number];
  render::PlotSeries series{.name = fmt::format("{}{}", analysis::long_name(mode), line.suffix),
                            .colour = mode_number,
                            .dashed = line.dashed,
                            .points = {}};
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const analysis::MeasuredLevel* level = analysis.find(mode, concurrency);
    const std::optional<analysis::Spread> spread = level == nullptr ? std::nullopt : level->spread(line.figure);
    // The mean over repetitions, also of figures that the level's analysis has as a sum.
    const std::optional<double> value = spread ? std::optional(spread->mean * plot.factor) : std::nullopt;
    render::PlotPoint point{.x = static_cast<double>(concurrency), .y = value, .tooltip = {}};
    std::string tooltip =
        fmt::format("{}, concurrency {}: {} {}", series.name, concurrency,
                    value && *value >= 1'000 ? render::format_tick(*value) : render::format_fixed(value, 2), plot.unit);
    if (spread && spread->count > 1) {
      point.low = spread->min * plot.factor;
      point.high = spread->max * plot.factor;
      tooltip += fmt::format(" (mean of {}; {} to {})", spread->count, render::format_fixed(point.low, 2),
                             render::format_fixed(point.high, 2));
    }
    point.tooltip = std::move(tooltip);
    series.points.push_back(std::move(point));
  }
  return series;
}

/// Enough points for a smooth line; the file stays small whatever the number of samples.
constexpr std::size_t kDistributionPoints = 200;

render::PlotSeries distribution_of(const analysis::LevelAnalysis& level, std::size_t mode_number) {
  const std::vector<double>& sorted = level.sorted_ttft_ms;
  render::PlotSeries series{
      .name = fmt::format("{} ({} turns)", analysis::long_name(level.mode), render::format_count(sorted.size())),
      .colour = mode_number,
      .dashed = false,
      .points = {}};
  if (sorted.empty()) return series;
  for (std::size_t i = 0; i <= kDistributionPoints; ++i) {
    const double q = static_cast<double>(i) / static_cast<double>(kDistributionPoints);
    const double ttft = quantile_of_sorted(sorted, q);
    render::PlotPoint point{.x = ttft, .y = 100 * q, .tooltip = {}};
    if (i == kDistributionPoints / 2 || i == kDistributionPoints * 95 / 100) {
      point.tooltip =
          fmt::format("{}: p{:.0f} = {} ms", analysis::long_name(level.mode), 100 * q, render::format_fixed(ttft, 2));
    }
    series.points.push_back(std::move(point));
  }
  return series;
}

}  // namespace

std::vector<render::Plot> plots_over_levels(const analysis::RunAnalysis& analysis) {
  const LevelPlot wanted[] = {
      quantile_plot("Time to first token", Metric::kTtftP50, Metric::kTtftP95),
      quantile_plot("Time per output token", Metric::kTpotP50, Metric::kTpotP95),
      quantile_plot("End-to-end latency", Metric::kLatencyP50, Metric::kLatencyP95),
      plot_of(Metric::kThroughput),
      plot_of(Metric::kHitRatePct),
      {"Prefilled tokens", "tokens", 1, {{"", prefilled_tokens}}},
  };
  std::vector<render::Plot> plots;
  for (const LevelPlot& wish : wanted) {
    render::Plot plot{.title = std::string(wish.title),
                      .x_title = "Concurrency (conversations)",
                      .y_title = std::string(wish.unit),
                      .x_kind = render::AxisScale::Kind::kLevels,
                      .series = {}};
    for (std::size_t mode = 0; mode < analysis.modes().size(); ++mode) {
      for (const Line& line : wish.lines) plot.series.push_back(series_of(analysis, mode, wish, line));
    }
    plots.push_back(std::move(plot));
  }
  return plots;
}

std::vector<render::Plot> ttft_distributions(const analysis::RunAnalysis& analysis) {
  std::vector<render::Plot> plots;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    render::Plot plot{.title = fmt::format("TTFT distribution at concurrency {}", concurrency),
                      .x_title = "TTFT (ms, logarithmic)",
                      .y_title = "% of turns",
                      .x_kind = render::AxisScale::Kind::kLogarithmic,
                      .series = {}};
    for (std::size_t mode = 0; mode < analysis.modes().size(); ++mode) {
      const analysis::MeasuredLevel* level = analysis.find(analysis.modes()[mode], concurrency);
      if (level != nullptr) plot.series.push_back(distribution_of(level->analysis, mode));
    }
    plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace kvist::report

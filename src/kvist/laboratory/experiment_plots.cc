#include <fmt/format.h>

#include <algorithm>

#include "kvist/analysis/mode_names.h"
#include "kvist/laboratory/experiment_run.h"
#include "kvist/render/figures.h"
#include "kvist/render/svg_plot.h"

namespace kvist::laboratory {
namespace {

struct Wish {
  std::string_view key;
  const char* title;
  const char* unit;
  double factor = 1;
};

constexpr Wish kWishes[] = {{"ttft_p50_ms", "TTFT p50", "ms"},
                            {"ttft_p95_ms", "TTFT p95", "ms"},
                            {"tpot_p50_ms", "TPOT p50", "ms"},
                            {"tpot_p95_ms", "TPOT p95", "ms"},
                            {"latency_p50_ms", "End-to-end latency p50", "s", 1e-3},
                            {"latency_p95_ms", "End-to-end latency p95", "s", 1e-3},
                            {"tops", "Throughput", "output tokens/s"},
                            {"actual_rps", "Turns per second", "turns/s"},
                            {"error_pct", "Errors", "%"},
                            {"kv_hit_rate_pct", "KV hit rate", "%"}};

render::PlotSeries simulated_series(const analysis::RunAnalysis& run, std::size_t number,
                                    const analysis::NamedFigure& named, const Wish& wish) {
  const spec::RoutingMode mode = run.modes()[number];
  render::PlotSeries series{
      .name = fmt::format("{}, simulated (band: smallest to largest of the seeds)", analysis::long_name(mode)),
      .colour = number,
      .dashed = false,
      .points = {}};
  for (const std::uint32_t concurrency : run.concurrencies()) {
    const analysis::MeasuredLevel* level = run.find(mode, concurrency);
    const std::optional<analysis::Spread> spread = level == nullptr ? std::nullopt : level->spread(named.figure);
    render::PlotPoint point{.x = static_cast<double>(concurrency), .y = {}, .tooltip = "simulated"};
    if (spread) {
      point.y = spread->mean * wish.factor;
      point.low = spread->min * wish.factor;
      point.high = spread->max * wish.factor;
    }
    series.points.push_back(std::move(point));
  }
  return series;
}

render::PlotSeries published_series(const ExperimentRun& run, spec::RoutingMode mode,
                                    const analysis::NamedFigure& named, const Wish& wish) {
  const auto& modes = run.run.modes();
  const auto place = std::ranges::find(modes, analysis::stand_in(run.run, mode));
  render::PlotSeries series{.name = fmt::format("{}, published", analysis::long_name(mode)),
                            .colour = static_cast<std::size_t>(place - modes.begin()),
                            .dashed = true,
                            .points = {}};
  for (const std::uint32_t concurrency : run.check.reference.concurrencies) {
    const analysis::ReferenceFigures* level = run.check.reference.find(mode, concurrency);
    const std::optional<double> value = level == nullptr ? std::nullopt : level->figure(named);
    series.points.push_back({.x = static_cast<double>(concurrency),
                             .y = value ? std::optional(*value * wish.factor) : std::nullopt,
                             .tooltip = "published"});
  }
  return series;
}

/// Errors below half a percent are not worth a plot.
constexpr double kLeastDrawn = 0.5;

bool has_values(const render::Plot& plot) {
  return std::ranges::any_of(plot.series, [](const render::PlotSeries& series) {
    return std::ranges::any_of(series.points,
                               [](const render::PlotPoint& point) { return point.y && *point.y >= kLeastDrawn; });
  });
}

}  // namespace

std::string experiment_plots(const ExperimentRun& run) {
  std::vector<render::Plot> plots;
  for (const Wish& wish : kWishes) {
    const analysis::NamedFigure& named = *analysis::find_figure(wish.key);
    render::Plot plot{.title = wish.title,
                      .x_title = "Concurrency (conversations)",
                      .y_title = wish.unit,
                      .x_kind = render::AxisScale::Kind::kLevels,
                      .series = {}};
    for (std::size_t mode = 0; mode < run.run.modes().size(); ++mode) {
      plot.series.push_back(simulated_series(run.run, mode, named, wish));
    }
    for (const spec::RoutingMode mode : run.check.reference.modes()) {
      plot.series.push_back(published_series(run, mode, named, wish));
    }
    if (has_values(plot)) plots.push_back(std::move(plot));
  }
  return render::render_svg_sheet(plots, 2);
}

}  // namespace kvist::laboratory

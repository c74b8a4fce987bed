#include <fmt/format.h>

#include <algorithm>

#include "kvist/analysis/mode_names.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/laboratory/experiment_run.h"
#include "kvist/render/figures.h"
#include "kvist/render/svg_plot.h"

namespace kvist::laboratory {
namespace {

render::PlotSeries simulated_series(const analysis::RunAnalysis& run, std::size_t number,
                                    const analysis::NamedFigure& named) {
  const spec::Arm& mode = run.modes()[number];
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
      point.y = spread->mean * named.plot_factor;
      point.low = spread->min * named.plot_factor;
      point.high = spread->max * named.plot_factor;
    }
    series.points.push_back(std::move(point));
  }
  return series;
}

render::PlotSeries published_series(const ExperimentRun& run, spec::RoutingMode mode,
                                    const analysis::NamedFigure& named) {
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
                             .y = value ? std::optional(*value * named.plot_factor) : std::nullopt,
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
  for (const analysis::Metric metric : analysis::kMetrics) {
    const analysis::NamedFigure& named = analysis::figure_of(metric);
    render::Plot plot{.title = std::string(named.plot_title),
                      .x_title = "Concurrency (conversations)",
                      .y_title = std::string(named.plot_unit),
                      .x_kind = render::AxisScale::Kind::kLevels,
                      .series = {}};
    for (std::size_t mode = 0; mode < run.run.modes().size(); ++mode) {
      plot.series.push_back(simulated_series(run.run, mode, named));
    }
    for (const spec::RoutingMode mode : run.check.reference.modes()) {
      plot.series.push_back(published_series(run, mode, named));
    }
    if (has_values(plot)) plots.push_back(std::move(plot));
  }
  return render::render_svg_sheet(plots, 2);
}

}  // namespace kvist::laboratory

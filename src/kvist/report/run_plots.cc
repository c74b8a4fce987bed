#include "kvist/report/run_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/estimate_text.h"

namespace kvist::report {
namespace {

using analysis::Headline;
using analysis::HeadlineFigure;

struct Line {
  const char* suffix;  // behind the mode's name, "" for none
  const HeadlineFigure* figure;
  bool dashed = false;
};

struct LevelPlot {
  std::string_view title;
  std::string_view unit;
  std::vector<Line> lines;
};

LevelPlot plot_of(std::string_view title, std::string_view unit, Headline figure) {
  return {.title = title, .unit = unit, .lines = {{"", &analysis::headline(figure)}}};
}

/// Two figures of one unit in one plot.
LevelPlot quantile_plot(std::string_view title, Headline p50, Headline p95) {
  const HeadlineFigure& figure = analysis::headline(p50);
  return {.title = title, .unit = figure.unit, .lines = {{" p50", &figure}, {" p95", &analysis::headline(p95), true}}};
}

const HeadlineFigure& prefilled_tokens() {
  static const HeadlineFigure kFigure = {.key = "prefilled_tokens",
                                         .title = "Prefilled tokens",
                                         .unit = "tokens",
                                         .figure = [](const analysis::LevelAnalysis& a) -> std::optional<double> {
                                           if (!a.prefilled_tokens) return std::nullopt;
                                           return static_cast<double>(*a.prefilled_tokens);
                                         }};
  return kFigure;
}

std::string value_text(double value) {
  return value >= 1'000 ? render::format_tick(value) : render::format_fixed(value, 2);
}

render::PlotPoint point_of(const analysis::RunAnalysis& analysis, const spec::Arm& mode, std::uint32_t concurrency,
                           const std::string& name, std::string_view unit, const HeadlineFigure& figure) {
  const analysis::MeasuredLevel* level = analysis.find(mode, concurrency);
  // Over repetitions the mean, also of figures that the level's analysis has as a sum.
  const analysis::Estimate estimate =
      level == nullptr ? analysis::Estimate{} : printed(analysis::estimate_of(*level, figure), figure);
  render::PlotPoint point{.x = static_cast<double>(concurrency), .y = estimate.value, .tooltip = {}};
  point.tooltip = fmt::format("{}, concurrency {}: {} {}", name, concurrency,
                              estimate.value ? value_text(*estimate.value) : std::string(render::kMissing), unit);
  if (estimate.interval) {
    point.low = estimate.interval->low;
    point.high = estimate.interval->high;
    point.tooltip += fmt::format(" (95 % interval {} to {})", value_text(*point.low), value_text(*point.high));
  }
  if (level != nullptr && level->counted() > 1) point.tooltip += fmt::format(", mean of {}", level->counted());
  if (level != nullptr && client_degraded(analysis, *level)) {
    point.tooltip += fmt::format(", client {}", analysis::to_string(level->analysis.client.grade));
  }
  return point;
}

render::PlotSeries series_of(const analysis::RunAnalysis& analysis, std::size_t mode_number, const LevelPlot& plot,
                             const Line& line) {
  const spec::Arm& mode = analysis.modes()[mode_number];
  render::PlotSeries series{.name = fmt::format("{}{}", analysis::long_name(mode), line.suffix),
                            .colour = mode_number,
                            .dashed = line.dashed,
                            .points = {}};
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    series.points.push_back(point_of(analysis, mode, concurrency, series.name, plot.unit, *line.figure));
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

/// One way to group turns.
struct GroupPlot {
  const char* by;
  const char* x_title;
  render::AxisScale::Kind x_kind;
  std::vector<analysis::TurnGroup> analysis::LevelAnalysis::* groups;
  std::uint32_t first;  // how the first group is counted
};

constexpr std::array<GroupPlot, 2> kGroupPlots = {
    {{"turn", "Turn of the conversation", render::AxisScale::Kind::kLevels, &analysis::LevelAnalysis::by_turn, 1},
     {"prompt length", "Tokens of the prompt, from (logarithmic)", render::AxisScale::Kind::kLogarithmic,
      &analysis::LevelAnalysis::by_prompt, 0}}};

render::PlotSeries group_series(const analysis::LevelAnalysis& level, std::size_t mode_number, const GroupPlot& plot,
                                double analysis::TurnGroup::* figure, const char* name) {
  render::PlotSeries series{.name = fmt::format("{} {}", analysis::long_name(level.mode), name),
                            .colour = mode_number,
                            .dashed = false,
                            .points = {}};
  for (const analysis::TurnGroup& group : level.*plot.groups) {
    const double x = static_cast<double>(group.from) + plot.first;
    series.points.push_back({.x = x,
                             .y = group.*figure,
                             .tooltip = fmt::format("{}, {} {}: {} ms ({} turns)", series.name, plot.by,
                                                    render::format_count(static_cast<std::uint64_t>(x)),
                                                    value_text(group.*figure), render::format_count(group.turns))});
  }
  return series;
}

}  // namespace

render::PlotSeries figure_series(const analysis::RunAnalysis& analysis, const spec::Arm& arm,
                                 const HeadlineFigure& figure, std::string name, std::size_t colour) {
  render::PlotSeries series{.name = std::move(name), .colour = colour, .dashed = false, .points = {}};
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    series.points.push_back(point_of(analysis, arm, concurrency, series.name, figure.unit, figure));
  }
  return series;
}

std::vector<render::Plot> plots_over_levels(const analysis::RunAnalysis& analysis) {
  std::vector<LevelPlot> wanted = {
      quantile_plot("Time to first token", Headline::kTtftP50, Headline::kTtftP95),
      quantile_plot("Time per output token", Headline::kTpotP50, Headline::kTpotP95),
      quantile_plot("Gaps between tokens (ITL)", Headline::kItlP50, Headline::kItlP95),
      quantile_plot("End-to-end latency", Headline::kLatencyP50, Headline::kLatencyP95),
      plot_of("Throughput", "output tokens/s", Headline::kThroughput),
      plot_of("KV hit rate", "%", Headline::kHitRatePct),
      // The tables have their sum over the repetitions.
      {.title = "Prefilled tokens",
       .unit = analysis.repeated() ? "tokens per repetition" : "tokens",
       .lines = {{"", &prefilled_tokens()}}},
  };
  if (analysis.sweep().method.goodput.is_given()) {
    wanted.push_back(plot_of("Goodput", "turns/s within the limits", Headline::kGoodput));
  }
  if (spec::has_schedule(analysis.sweep().workload)) {
    wanted.push_back(quantile_plot("Time to first token, from the schedule", Headline::kTtftFromScheduleP50,
                                   Headline::kTtftFromScheduleP95));
    wanted.push_back(quantile_plot("End-to-end latency, from the schedule", Headline::kLatencyFromScheduleP50,
                                   Headline::kLatencyFromScheduleP95));
  }
  std::vector<render::Plot> plots;
  for (const LevelPlot& wish : wanted) {
    render::Plot plot{.title = std::string(wish.title),
                      .x_title = analysis.sweep().workload.arrivals.is_open() ? "Conversation starts per minute"
                                                                              : "Concurrency (conversations)",
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

std::vector<render::Plot> ttft_by_groups(const analysis::RunAnalysis& analysis) {
  std::vector<render::Plot> plots;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    for (const GroupPlot& wish : kGroupPlots) {
      render::Plot plot{.title = fmt::format("TTFT by {} at concurrency {}", wish.by, concurrency),
                        .x_title = wish.x_title,
                        .y_title = "ms",
                        .x_kind = wish.x_kind,
                        .series = {}};
      for (std::size_t mode = 0; mode < analysis.modes().size(); ++mode) {
        const analysis::MeasuredLevel* level = analysis.find(analysis.modes()[mode], concurrency);
        if (level == nullptr) continue;
        plot.series.push_back(group_series(level->analysis, mode, wish, &analysis::TurnGroup::ttft_p50_ms, "p50"));
        plot.series.push_back(group_series(level->analysis, mode, wish, &analysis::TurnGroup::ttft_p95_ms, "p95"));
        plot.series.back().dashed = true;
      }
      const bool any = std::ranges::any_of(plot.series, [](const auto& series) { return series.points.size() > 1; });
      if (any) plots.push_back(std::move(plot));
    }
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

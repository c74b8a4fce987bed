#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/render/html_page.h"
#include "kvist/report/run_comparison.h"
#include "kvist/report/run_plots.h"

namespace kvist::report {
namespace {

using analysis::Headline;
using analysis::RunPair;

constexpr std::array kOverlaid = {Headline::kTtftP50,    Headline::kTtftP95,    Headline::kTpotP50,
                                  Headline::kItlP95,     Headline::kLatencyP50, Headline::kLatencyP95,
                                  Headline::kThroughput, Headline::kHitRatePct, Headline::kErrorPct};
constexpr std::array kChanged = {Headline::kTtftP50, Headline::kTtftP95,    Headline::kTpotP50,
                                 Headline::kItlP95,  Headline::kLatencyP95, Headline::kThroughput};

std::string x_title_of(std::span<const RunPair> pairs) {
  return pairs.front().before.analysis->sweep().workload.arrivals.is_open() ? "Conversation starts per minute"
                                                                            : "Concurrency (conversations)";
}

std::string line_name(const analysis::NamedRun& run, const spec::Arm& arm, std::size_t arms) {
  return arms < 2 ? run.name : fmt::format("{}, {}", run.name, analysis::long_name(arm));
}

/// The runs of all pairs, the first one once, each with the arms that are compared.
struct ShownRun {
  analysis::NamedRun run;
  std::vector<spec::Arm> arms;
};
std::vector<ShownRun> shown_runs(std::span<const RunPair> pairs) {
  std::vector<ShownRun> shown = {{.run = pairs.front().before, .arms = {}}};
  for (const RunPair& pair : pairs) {
    ShownRun& later = shown.emplace_back(ShownRun{.run = pair.after, .arms = {}});
    for (const analysis::ArmPair& arms : pair.arms) {
      later.arms.push_back(arms.after);
      std::vector<spec::Arm>& first = shown.front().arms;
      if (std::ranges::find(first, arms.before) == first.end()) first.push_back(arms.before);
    }
  }
  return shown;
}

std::string signed_percent(double value) {
  return fmt::format("{:+.1f}%", value);
}

render::PlotSeries change_series(const RunPair& pair, const analysis::ArmPair& arms,
                                 const analysis::HeadlineFigure& figure, std::size_t colour) {
  render::PlotSeries series{
      .name = line_name(pair.after, arms.after, pair.arms.size()), .colour = colour, .dashed = false, .points = {}};
  for (const std::uint32_t concurrency : pair.concurrencies) {
    const analysis::FigureChange change =
        analysis::change_of(pair.before.analysis->find(arms.before, concurrency),
                            pair.after.analysis->find(arms.after, concurrency), figure);
    render::PlotPoint point{.x = static_cast<double>(concurrency), .y = change.change.value, .tooltip = {}};
    if (!point.y) {
      series.points.push_back(std::move(point));
      continue;
    }
    point.tooltip = fmt::format("{} at {}: {}", series.name, concurrency, signed_percent(*point.y));
    if (const auto& interval = change.change.interval) {
      point.low = interval->low;
      point.high = interval->high;
      point.tooltip +=
          fmt::format(" (95 % interval {} to {})", signed_percent(*point.low), signed_percent(*point.high));
    }
    series.points.push_back(std::move(point));
  }
  return series;
}

}  // namespace

std::vector<render::Plot> overlaid_plots(std::span<const RunPair> pairs) {
  const std::vector<ShownRun> runs = shown_runs(pairs);
  std::vector<render::Plot> plots;
  for (const Headline which : kOverlaid) {
    const analysis::HeadlineFigure& figure = analysis::headline(which);
    render::Plot plot{.title = std::string(figure.title),
                      .x_title = x_title_of(pairs),
                      .y_title = std::string(figure.unit),
                      .x_kind = render::AxisScale::Kind::kLevels,
                      .series = {}};
    std::size_t colour = 0;
    for (const ShownRun& shown : runs) {
      for (const spec::Arm& arm : shown.arms) {
        plot.series.push_back(
            figure_series(*shown.run.analysis, arm, figure, line_name(shown.run, arm, shown.arms.size()), colour++));
      }
    }
    plots.push_back(std::move(plot));
  }
  return plots;
}

std::vector<render::Plot> change_plots(std::span<const RunPair> pairs) {
  std::vector<render::Plot> plots;
  for (const Headline which : kChanged) {
    const analysis::HeadlineFigure& figure = analysis::headline(which);
    render::Plot plot{.title = fmt::format("{}: change against {}", figure.title, pairs.front().before.name),
                      .x_title = x_title_of(pairs),
                      .y_title = figure.larger_is_better ? "%, above 0: better" : "%, below 0: better",
                      .x_kind = render::AxisScale::Kind::kLevels,
                      .y_kind = render::AxisScale::Kind::kLinearWithZero,
                      .series = {}};
    // The colours of the overlaid plots, in which the first run has the first ones.
    std::size_t colour = shown_runs(pairs).front().arms.size();
    for (const RunPair& pair : pairs) {
      for (const analysis::ArmPair& arms : pair.arms)
        plot.series.push_back(change_series(pair, arms, figure, colour++));
    }
    plots.push_back(std::move(plot));
  }
  return plots;
}

std::string run_comparison_page(std::span<const RunPair> pairs) {
  std::string title;
  for (const RunPair& pair : pairs) title += (title.empty() ? "" : ", ") + pair.after.name;
  title = fmt::format("{} against {}", title, pairs.front().before.name);
  render::Document document = {render::Heading{1, title}};
  if (pairs.front().before.analysis->run().simulated) {
    document.push_back(render::Paragraph{{{"Simulated in virtual time, not measured."}}});
  }
  for (const RunPair& pair : pairs) {
    document.push_back(render::Heading{2, "Verdict: " + pair.after.name});
    document.push_back(phase_verdict(pair));
  }
  document.push_back(render::Heading{2, "Curves"});
  document.push_back(
      render::Paragraph{{{"Each figure over the load, the runs in one plot; the band is the 95 % interval. "
                          "Below them the changes with theirs: where the band is clear of 0, the runs "
                          "differ."}}});
  document.push_back(render::PlotsHere{});
  for (const RunPair& pair : pairs) {
    for (render::Block& block : phase_section(pair)) document.push_back(std::move(block));
  }
  const std::string plots =
      render::plots_html(overlaid_plots(pairs)) + "<h3>Changes</h3>\n" + render::plots_html(change_plots(pairs));
  return render::page_around(title, render::html_of(document, plots), {});
}

}  // namespace kvist::report

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "kvist/analysis/mode_names.h"
#include "kvist/laboratory/routing_results.h"
#include "kvist/render/figures.h"
#include "kvist/render/svg_plot.h"
#include "kvist/report/comparison_text.h"

namespace kvist::laboratory {
namespace {

constexpr std::array kTables = {"ttft_p50_ms", "ttft_p95_ms", "tpot_p50_ms", "tops", "kv_hit_rate_pct"};

std::string level_name(const RoutingScenario& scenario, std::uint32_t level) {
  return fmt::format("{} {}", level, scenario.level_unit);
}

/// One figure: a row per level, a column per policy.
render::Table figure_table(const RoutingRun& run, const analysis::NamedFigure& named) {
  render::Table table;
  table.columns = {{fmt::format("{} at", named.title)}};
  for (const spec::RoutingMode mode : run.run.modes()) table.columns.push_back({std::string(to_string(mode))});
  for (const std::uint32_t level : run.run.concurrencies()) {
    std::vector<std::string> row = {level_name(run.scenario, level)};
    for (const spec::RoutingMode mode : run.run.modes()) {
      const analysis::MeasuredLevel* measured = run.run.find(mode, level);
      if (measured == nullptr) {
        row.emplace_back(render::kMissing);
        continue;
      }
      row.push_back(named.format(named.figure(measured->analysis)) + (measured->analysis.excluded ? " (excl.)" : ""));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

bool has_errors(const analysis::RunAnalysis& run) {
  return std::ranges::any_of(run.levels(), [](const analysis::MeasuredLevel& level) {
    return std::ranges::any_of(level.repetitions,
                               [](const analysis::Measurement& m) { return m.analysis.window_turns.failed > 0; });
  });
}

std::string verdict_cell(const BarOutcome& outcome) {
  if (!outcome.holds) return fmt::format("open: {}", outcome.shows);
  return fmt::format("{}: {}", *outcome.holds ? "met" : "MISSED", outcome.shows);
}

/// A row per bar, a column per level.
render::Table bars_table(const RoutingRun& run) {
  render::Table table;
  table.columns = {{"Demanded", render::Align::kLeft}};
  for (const std::uint32_t level : run.run.concurrencies()) {
    table.columns.push_back({level_name(run.scenario, level)});
  }
  for (const DemandedBar& demanded : run.scenario.bars) {
    std::vector<std::string> row = {demanded.bar.claim};
    for (const std::uint32_t level : run.run.concurrencies()) {
      const auto found = std::ranges::find_if(run.outcomes, [&](const BarOutcome& outcome) {
        return outcome.demanded == &demanded && outcome.level == level;
      });
      row.push_back(found == run.outcomes.end() ? "not demanded" : verdict_cell(*found));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

void add_shortfalls(render::Document& document, const std::vector<std::unique_ptr<RoutingRun>>& runs) {
  render::Bullets bullets;
  for (const auto& run : runs) {
    for (const BarOutcome& outcome : run->outcomes) {
      if (outcome.holds.value_or(true)) continue;
      const RoutingBar& bar = outcome.demanded->bar;
      const ShortfallNote* note = run->scenario.note(bar.id, outcome.level);
      bullets.items.push_back(
          {render::strong(fmt::format("{}, {}:", run->scenario.name, level_name(run->scenario, outcome.level))),
           {fmt::format(" {}: {}. {}", bar.claim, outcome.shows,
                        note == nullptr ? "Not explained yet." : note->because)}});
    }
  }
  document.push_back(render::Heading{2, "Every shortfall"});
  if (bullets.items.empty()) {
    document.push_back(render::Paragraph{{{"None: every bar that was demanded and could be evaluated holds."}}});
  } else {
    document.push_back(std::move(bullets));
  }
}

std::string setup_text(const RoutingRun& run) {
  const spec::SweepSpec& sweep = run.run.sweep();
  const spec::WorkloadSpec& w = sweep.workload;
  std::uint32_t slots = 0;
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) slots += worker.max_batch_size;
  const std::string turns =
      w.turns_min == w.turns_max ? fmt::format("{}", w.turns_min) : fmt::format("{}-{}", w.turns_min, w.turns_max);
  return fmt::format("{} workers, {} batch slots; {}, {} turns per conversation; {} seeds per level.",
                     sweep.deployment.workers.size(), slots,
                     w.starters == 0 ? "no shared starters" : fmt::format("{} shared starters", w.starters), turns,
                     sweep.method.repetitions);
}

void add_run(render::Document& document, const RoutingRun& run, spec::RoutingMode candidate,
             spec::RoutingMode baseline) {
  document.push_back(render::Heading{2, run.scenario.title});
  document.push_back(render::Paragraph{{{run.scenario.shows + " "},
                                        {setup_text(run) + " "},
                                        render::code("examples/routing/" + run.scenario.name + ".yaml")}});
  document.push_back(render::Heading{3, "What is demanded"});
  document.push_back(bars_table(run));
  document.push_back(render::Heading{3, "Every policy, means over the seeds"});
  for (const char* key : kTables) document.push_back(figure_table(run, *analysis::find_figure(key)));
  if (has_errors(run.run)) document.push_back(figure_table(run, *analysis::find_figure("error_pct")));
  document.push_back(
      render::Heading{3, fmt::format("{} against {}, paired over seeds", to_string(candidate), to_string(baseline))});
  document.push_back(report::comparison_table(run.comparison, candidate));
}

render::PlotSeries series_of(const RoutingRun& run, std::size_t mode_number, const analysis::NamedFigure& named) {
  const spec::RoutingMode mode = run.run.modes()[mode_number];
  render::PlotSeries series{
      .name = std::string(analysis::long_name(mode)), .colour = mode_number, .dashed = false, .points = {}};
  for (const std::uint32_t level : run.run.concurrencies()) {
    const analysis::MeasuredLevel* measured = run.run.find(mode, level);
    render::PlotPoint point{.x = static_cast<double>(level), .y = {}, .tooltip = std::string(to_string(mode))};
    if (measured != nullptr) point.y = named.figure(measured->analysis);
    series.points.push_back(std::move(point));
  }
  return series;
}

}  // namespace

render::Table RoutingResults::overview() const {
  render::Table table;
  table.columns = {{"Scenario", render::Align::kLeft}, {"Met"}, {"Missed"}, {"Open"}};
  for (const auto& run : runs_) {
    table.rows.push_back({run->scenario.title, fmt::format("{}", laboratory::count(run->outcomes, true)),
                          fmt::format("{}", laboratory::count(run->outcomes, false)),
                          fmt::format("{}", laboratory::count(run->outcomes, std::nullopt))});
  }
  return table;
}

std::string RoutingResults::markdown(const std::string& images) const {
  render::Document document;
  document.push_back(render::Heading{1, "Routing policies, simulated"});
  document.push_back(render::Paragraph{
      {{"Written by "},
       render::code("make routing"),
       {fmt::format(" from simulated runs; every figure and verdict is computed. Each scenario is a sweep file of "
                    "examples/routing; the gateway's router, the scheduler, the KV pool and the load are the live "
                    "system's own code in virtual time, and a model of the GPU says how long a step takes. Figures are "
                    "read by the published method: quantiles and rates over a window at each snapshot, "
                    "averaged, then averaged over the seeds. {} is the candidate, {} the baseline; the others are kept "
                    "with their published defaults.",
                    to_string(candidate_), to_string(baseline_))}}});
  document.push_back(render::Paragraph{
      {{report::comparison_method() + " A bar is demanded level by level: met, missed, or open where something was not "
                                      "measured."}}});
  document.push_back(overview());
  add_shortfalls(document, runs_);
  std::string text = render::markdown_of(document);
  for (const auto& run : runs_) {
    render::Document section;
    add_run(section, *run, candidate_, baseline_);
    text += "\n" + render::markdown_of(section);
    if (!run->scenario.plot) continue;
    text += fmt::format("\n![{}: TTFT p95 and throughput of every policy]({}/{}.svg)\n", run->scenario.title, images,
                        run->scenario.name);
  }
  return text;
}

std::size_t RoutingResults::count(std::optional<bool> holds) const {
  std::size_t n = 0;
  for (const auto& run : runs_) n += laboratory::count(run->outcomes, holds);
  return n;
}

std::string routing_plots(const RoutingRun& run) {
  struct Wish {
    const char* key;
    const char* title;
    render::AxisScale::Kind y;
  };
  constexpr std::array kWishes = {Wish{"ttft_p95_ms", "TTFT p95, logarithmic", render::AxisScale::Kind::kLogarithmic},
                                  Wish{"tops", "Throughput", render::AxisScale::Kind::kLinearFromZero}};
  std::vector<render::Plot> plots;
  for (const Wish& wish : kWishes) {
    const analysis::NamedFigure& named = *analysis::find_figure(wish.key);
    render::Plot plot{.title = wish.title,
                      .x_title = run.scenario.level_unit,
                      .y_title = std::string(named.unit),
                      .x_kind = render::AxisScale::Kind::kLevels,
                      .y_kind = wish.y,
                      .series = {}};
    for (std::size_t mode = 0; mode < run.run.modes().size(); ++mode) {
      plot.series.push_back(series_of(run, mode, named));
    }
    plots.push_back(std::move(plot));
  }
  return render::render_svg_sheet(plots, 2);
}

}  // namespace kvist::laboratory

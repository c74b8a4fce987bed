#include "kvist/planning/capacity_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "kvist/analysis/mode_names.h"
#include "kvist/planning/capacity_tables.h"
#include "kvist/render/document.h"
#include "kvist/render/figures.h"
#include "kvist/render/html_page.h"
#include "kvist/render/svg_plot.h"

namespace kvist::planning {
namespace {

using render::Document;
using render::Heading;
using render::Paragraph;

constexpr std::string_view kTooFewTurns =
    "no interval, because a level next to the answer has too few turns within its window: a p95 needs 100, a p99 500, "
    "a "
    "share 60, in three of ten blocks at least.";

/// The objectives that need load: "Output tokens/s >= 2000".
std::string least_text(const Slo& slo) {
  Slo least;
  std::ranges::copy_if(slo, std::back_inserter(least), &Objective::needs_load);
  return slo_text(least);
}

/// "1 worker", "3 workers".
std::string counted(std::size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string subject_text(const CapacityPlan& plan) {
  const spec::DeploymentSpec& deployment = plan.sweep.deployment;
  return fmt::format("{}: {}, {}, {}; within {}", plan.sweep.name, counted(deployment.workers.size(), "worker"),
                     counted(gpus_of(deployment), "GPU"), counted(batch_slots_of(deployment), "batch slot"),
                     slo_text(plan.slo));
}

Document document_of(const CapacityPlan& plan) {
  Document document;
  document.push_back(Heading{1, "Capacity: " + plan.sweep.name});
  document.push_back(Paragraph{{{subject_text(plan)}}});
  document.push_back(Paragraph{{{method_text(plan)}}});
  document.push_back(Heading{2, "Most users within the SLO"});
  document.push_back(capacity_table(plan));
  for (const std::string& remark : remarks_of(plan)) document.push_back(Paragraph{{{remark}}});
  document.push_back(render::PlotsHere{});
  if (!plan.needed.empty()) {
    document.push_back(Heading{2, "Workers for a number of users"});
    document.push_back(workers_table(plan));
    for (const std::string& remark : worker_remarks_of(plan)) document.push_back(Paragraph{{{remark}}});
  }
  for (const KnobTable& knobs : plan.knobs) {
    document.push_back(Heading{2, knobs_title(knobs)});
    document.push_back(knob_table(knobs));
  }
  document.push_back(Heading{2, "Every level looked at"});
  for (const Capacity& capacity : plan.capacities) {
    document.push_back(Heading{3, std::string(analysis::long_name(capacity.mode))});
    document.push_back(level_table(capacity, plan.slo));
  }
  return document;
}

/// A limited figure over the users: a line per mode, and the limit.
render::Plot plot_of(const CapacityPlan& plan, const Objective& objective) {
  const analysis::HeadlineFigure& figure = analysis::headline(objective.figure);
  render::Plot plot{.title = std::string(figure.title),
                    .x_title = "users",
                    .y_title = title_with_unit(objective.figure),
                    .x_kind = render::AxisScale::Kind::kLinearFromZero,
                    .series = {}};
  double last = 0;
  for (std::size_t i = 0; i < plan.capacities.size(); ++i) {
    render::PlotSeries series{
        .name = std::string(analysis::long_name(plan.capacities[i].mode)), .colour = i, .dashed = false, .points = {}};
    // Far beyond the answer the figures only flatten the part that matters.
    const double shown = 1.5 * std::max(1U, plan.capacities[i].at_most);
    for (const Judgement& level : plan.capacities[i].levels) {
      std::optional<double> mean = level.mean(objective.figure);
      if (!mean || level.users > shown) continue;
      *mean *= figure.factor;
      last = std::max(last, static_cast<double>(level.users));
      series.points.push_back(
          {.x = static_cast<double>(level.users),
           .y = mean,
           .tooltip = fmt::format("{} users: {} {}", level.users, render::format_fixed(mean, 1), figure.unit)});
    }
    plot.series.push_back(std::move(series));
  }
  render::PlotSeries limit{.name = "limit", .colour = plan.capacities.size() % 5, .dashed = true, .points = {}};
  const double height = objective.limit * figure.factor;
  limit.points = {{.x = 0, .y = height, .tooltip = {}}, {.x = last, .y = height, .tooltip = {}}};
  plot.series.push_back(std::move(limit));
  return plot;
}

/// "10", "3 to 10": over how many blocks of time intervals are; empty where none is.
std::string block_counts_text(const CapacityPlan& plan) {
  std::size_t fewest = 0;
  std::size_t most = 0;
  const auto add = [&](const std::vector<Judgement>& levels) {
    for (const Judgement& level : levels) {
      for (const ObjectiveEstimate& one : level.objectives) {
        const std::size_t blocks = one.blocks.value_or(0);
        if (blocks == 0) continue;
        fewest = fewest == 0 ? blocks : std::min(fewest, blocks);
        most = std::max(most, blocks);
      }
    }
  };
  for (const Capacity& capacity : plan.capacities) add(capacity.levels);
  for (const WorkersNeeded& needed : plan.needed) add(needed.levels);
  if (most == 0) return {};
  return fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
}

std::string method_of_replays(const CapacityPlan& plan) {
  const std::string blocks = block_counts_text(plan);
  if (blocks.empty()) {
    return "every seed of a level replays the same requests, of which the window has too few turns for intervals over "
           "blocks of time: levels are judged by their means";
  }
  return fmt::format(
      "every seed of a level replays the same requests, so that intervals are by Student's t over {} blocks of time "
      "(they contain how uneven this traffic is, not how other traffic would be)",
      blocks);
}

void append_block(std::string& out, const std::string& title, const render::Table& table) {
  out += fmt::format("\n{}\n{}", title, render::render_text_table(table));
}

}  // namespace

std::string slo_text(const Slo& slo) {
  std::string text;
  for (const Objective& objective : slo) text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(objective));
  return text;
}

std::string method_text(const CapacityPlan& plan) {
  const spec::MethodSpec& method = plan.sweep.method;
  return fmt::format(
      "{} Each level is {} of warm-up and a window of {}, with exact percentiles over all turns sent within it; {}.",
      plan.is_measured ? "Measured." : "Simulated, not measured.", render::format_duration(method.warmup),
      render::format_duration(method.snapshots * method.snapshot_interval),
      plan.same_requests ? method_of_replays(plan)
                         : "several seeds per level, more while the answer is open, judged by Student's t over the "
                           "seeds");
}

std::vector<std::string> remarks_of(const CapacityPlan& plan) {
  std::vector<std::string> remarks;
  const spec::TraceSpec& trace = plan.sweep.workload.trace;
  if (!trace.file.empty() && trace.loop == spec::TraceLoop::kOpen) {
    remarks.push_back(fmt::format("Users are percent of the rate of {}: 100 is the traffic as it was recorded.",
                                  std::filesystem::path(trace.file).filename().string()));
  }
  if (trace.file.empty() && plan.sweep.workload.arrivals.is_open()) {
    remarks.emplace_back("Users are conversation starts per minute: the file's arrivals are open.");
  }
  if (plan.trace_ends_above) {
    remarks.push_back(fmt::format("Above {} the trace ends before a level's window does: the search went no further.",
                                  counted(*plan.trace_ends_above, "user")));
  }
  for (const Capacity& capacity : plan.capacities) {
    if (capacity.unknown) {
      remarks.push_back(fmt::format("{}: {}.", to_string(capacity.mode), unknown_text(*capacity.unknown, "user")));
    }
    if (capacity.too_few > 0) {
      remarks.push_back(fmt::format("{}: {} ask for too little to reach {}.", to_string(capacity.mode),
                                    counted(capacity.too_few, "user"), least_text(plan.slo)));
    }
    if (capacity.lacks_interval) {
      remarks.push_back(fmt::format("{}: {}", to_string(capacity.mode), kTooFewTurns));
    }
    const std::string again = islands_text(capacity);
    if (again.empty()) continue;
    remarks.push_back(
        fmt::format("{}: the SLO breaks above {} users and holds again at {}. The answer is the lower end: a load that "
                    "grows passes through the gap.",
                    to_string(capacity.mode), capacity.users, again));
  }
  return remarks;
}

std::vector<std::string> worker_remarks_of(const CapacityPlan& plan) {
  std::vector<std::string> remarks;
  for (const WorkersNeeded& needed : plan.needed) {
    if (needed.unknown) {
      remarks.push_back(fmt::format("{}: {}.", to_string(needed.mode), unknown_text(*needed.unknown, "worker")));
      continue;
    }
    if (needed.lacks_interval) {
      remarks.push_back(fmt::format("{}: {}", to_string(needed.mode), kTooFewTurns));
    }
    if (needed.enough_below.empty()) continue;
    remarks.push_back(fmt::format("{}: {} workers hold {} users too, but some number between them and {} does not.",
                                  to_string(needed.mode), fmt::join(needed.enough_below, ", "), needed.users,
                                  needed.workers));
  }
  return remarks;
}

std::string knobs_title(const KnobTable& knobs) {
  return fmt::format("What each setting is worth, changed alone, from {} ({} routing, {})",
                     counted(knobs.base.users, "user"), to_string(knobs.base.mode), counted(knobs.gpus, "GPU"));
}

std::string gaps_of(const CapacityPlan& plan) {
  std::string gaps;
  const auto add = [&](std::string_view mode, const std::optional<UnknownLevel>& unknown, std::string_view what) {
    if (unknown) gaps += fmt::format("{}{}: {}", gaps.empty() ? "" : "; ", mode, unknown_text(*unknown, what));
  };
  for (const Capacity& capacity : plan.capacities) add(to_string(capacity.mode), capacity.unknown, "user");
  for (const WorkersNeeded& needed : plan.needed) add(to_string(needed.mode), needed.unknown, "worker");
  return gaps;
}

std::string plan_text(const CapacityPlan& plan) {
  std::string out = subject_text(plan) + "\n" + method_text(plan) + "\n";
  append_block(out, "Most users within the SLO", capacity_table(plan));
  for (const std::string& remark : remarks_of(plan)) out += remark + "\n";
  if (!plan.needed.empty()) append_block(out, "Workers for a number of users", workers_table(plan));
  for (const std::string& remark : worker_remarks_of(plan)) out += remark + "\n";
  for (const KnobTable& knobs : plan.knobs) append_block(out, knobs_title(knobs), knob_table(knobs));
  return out;
}

std::string plan_html(const CapacityPlan& plan) {
  std::vector<render::Plot> plots;
  for (const Objective& objective : plan.slo) plots.push_back(plot_of(plan, objective));
  return render::html_page("Capacity - " + plan.sweep.name, document_of(plan), plots);
}

}  // namespace kvist::planning

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

using analysis::Headline;

constexpr Headline kCompared[] = {Headline::kTtftP50, Headline::kTtftP95,    Headline::kTpotP50,
                                  Headline::kTpotP95, Headline::kLatencyP50, Headline::kLatencyP95};

struct Reading {
  Headline figure;
  std::optional<double> workload::Snapshot::* snapshot;
};
constexpr Reading kReadings[] = {{Headline::kTtftP50, &workload::Snapshot::ttft_p50_ms},
                                 {Headline::kTtftP95, &workload::Snapshot::ttft_p95_ms},
                                 {Headline::kTpotP50, &workload::Snapshot::tpot_p50_ms},
                                 {Headline::kTpotP95, &workload::Snapshot::tpot_p95_ms},
                                 {Headline::kLatencyP50, &workload::Snapshot::latency_p50_ms},
                                 {Headline::kLatencyP95, &workload::Snapshot::latency_p95_ms}};

/// "6.1, 48.2, 55.0": what each snapshot read.
std::string snapshot_values(const analysis::MeasuredLevel& level, const analysis::HeadlineFigure& figure,
                            int decimals) {
  for (const Reading& reading : kReadings) {
    if (&analysis::headline(reading.figure) != &figure) continue;
    std::string text;
    for (const workload::Snapshot& snapshot : level.record.snapshots) {
      const std::optional<double>& value = snapshot.*reading.snapshot;
      text += (text.empty() ? "" : ", ") +
              render::format_fixed(value ? std::optional(*value * figure.factor) : std::nullopt, decimals);
    }
    return text;
  }
  return {};
}

/// Which part of the measuring time the windows before the snapshots see.
double share_seen(const spec::MethodSpec& method) {
  return std::min(1.0, to_seconds(method.window) / to_seconds(method.snapshot_interval));
}

/// Why the two methods part at this figure, as far as the record tells it.
std::string reason(const analysis::MeasuredLevel& level, const analysis::HeadlineFigure& figure,
                   const spec::MethodSpec& method, int decimals) {
  const double seen = share_seen(method);
  std::string text = fmt::format("its snapshots read {} {}", snapshot_values(level, figure, decimals), figure.unit);
  text += ", and a mean of windows' percentiles is not the percentile of all turns";
  if (seen < 1) {
    text += fmt::format("; the windows see {} of the time", render::format_pct(100 * seen));
  }
  return text;
}

/// As a reader of the report has it: what looks the same there is no difference.
double as_printed(double value, int decimals) {
  const double scale = std::pow(10, decimals);
  return std::round(value * scale) / scale;
}

struct Difference {
  analysis::Estimate exact;
  analysis::Estimate published;
  bool known = false;   // there is an interval to compare with
  bool beyond = false;  // outside of it
};

Difference difference_of(const analysis::MeasuredLevel& level, const analysis::HeadlineFigure& figure) {
  Difference difference;
  difference.exact = printed(analysis::estimate_of(level, figure), figure);
  const std::optional<analysis::Spread> spread = level.spread(analysis::figure_of(*figure.published).figure);
  if (spread) difference.published.value = spread->mean * figure.factor;
  if (!difference.published.value || !difference.exact.interval) return difference;
  difference.known = true;
  const int decimals = decimals_of(std::vector{difference.exact});
  const double published = as_printed(*difference.published.value, decimals);
  difference.beyond = published < as_printed(difference.exact.interval->low, decimals) ||
                      published > as_printed(difference.exact.interval->high, decimals);
  return difference;
}

void add_differences(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table table;
  table.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}};
  for (const Headline which : kCompared) table.columns.push_back({std::string(analysis::headline(which).title)});
  render::Bullets beyond;
  std::size_t known = 0;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    std::vector<std::string> row = {level_label(analysis, level.analysis.concurrency),
                                    analysis::short_name(level.analysis.mode)};
    for (const Headline which : kCompared) {
      const analysis::HeadlineFigure& figure = analysis::headline(which);
      const Difference difference = difference_of(level, figure);
      const int decimals = decimals_of(std::vector{difference.exact});
      std::string cell = estimate_cell({.value = difference.published.value, .interval = {}}, decimals, figure.unit);
      if (difference.exact.value && difference.published.value && *difference.exact.value > 0) {
        cell += fmt::format(" ({:+.1f}%)", 100 * (*difference.published.value / *difference.exact.value - 1));
      }
      if (difference.beyond) {
        cell += " *";
        beyond.items.push_back(
            {render::strong(fmt::format("{} of {} at {}:", figure.title, analysis::short_name(level.analysis.mode),
                                        level.analysis.concurrency)),
             {fmt::format(" published method {}, exact {}: {}.",
                          estimate_cell({.value = difference.published.value, .interval = {}}, decimals, figure.unit),
                          estimate_cell(difference.exact, decimals, figure.unit),
                          reason(level, figure, analysis.sweep().method, decimals))}});
      }
      known += difference.known ? 1 : 0;
      row.push_back(std::move(cell));
    }
    table.rows.push_back(std::move(row));
  }
  document.push_back(std::move(table));
  if (known == 0) {
    document.push_back(
        render::Paragraph{{{"Whether the two part is not known: there are too few turns for intervals."}}});
    return;
  }
  if (beyond.items.empty()) {
    document.push_back(render::Paragraph{{{fmt::format(
        "At none of {} figures does the published method lie outside of the exact figure's 95 % interval.", known)}}});
    return;
  }
  document.push_back(render::Paragraph{
      {{fmt::format("* At {} of {} figures the published method lies outside of the exact figure's 95 % interval:",
                    beyond.items.size(), known)}}});
  document.push_back(std::move(beyond));
}

}  // namespace

void add_published_method(render::Document& document, const analysis::RunAnalysis& analysis) {
  const spec::MethodSpec& method = analysis.sweep().method;
  document.push_back(render::Heading{2, "The published method"});
  document.push_back(render::Paragraph{{{fmt::format(
      "For comparison with published figures only: each percentile and rate over the {} before each of {} snapshots, "
      "and the mean of these. In brackets: against the exact figure.",
      render::format_duration(method.window), method.snapshots)}}});
  if (analysis.levels().empty()) return;
  add_differences(document, analysis);
  if (analysis.modes().size() == 2) {
    add_two_mode_tables(document, analysis);
  } else {
    for (const spec::Arm& mode : analysis.modes()) add_single_mode_tables(document, analysis, mode);
  }
}

}  // namespace kvist::report

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "kvist/analysis/level_figures.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/render/figures.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

using analysis::Metric;
using analysis::NamedFigure;
using Format = std::string (*)(std::optional<double>);

std::optional<double> value_of(const analysis::MeasuredLevel* level, analysis::LevelFigure figure) {
  return level == nullptr ? std::nullopt : figure(level->analysis);
}

/// The figure; over several repetitions their mean and standard deviation: "223ms ± 4.20ms".
std::string cell_of(const analysis::MeasuredLevel* level, analysis::LevelFigure figure, Format format) {
  std::string cell = format(value_of(level, figure));
  if (level == nullptr || level->repetitions.size() < 2) return cell;
  const std::optional<analysis::Spread> spread = level->spread(figure);
  if (spread && spread->count > 1) cell += " ± " + format(spread->standard_deviation);
  return cell;
}

/// A table with one row per level: the level first, then a cell per column.
struct LevelColumn {
  std::string title;
  std::function<std::string(std::uint32_t)> cell;
};

/// "2/3": repetitions that count, of all.
LevelColumn valid_column(const analysis::RunAnalysis& analysis, const spec::Arm& mode) {
  return {"Valid Runs", [&analysis, mode](std::uint32_t concurrency) {
            const analysis::MeasuredLevel* level = analysis.find(mode, concurrency);
            if (level == nullptr) return std::string(render::kMissing);
            return fmt::format("{}/{}", level->counted(), level->repetitions.size());
          }};
}

/// "1 run excluded (33.0% errors)": a footnote to a level.
std::string note_of(const analysis::MeasuredLevel* level) {
  if (level == nullptr) return "not measured";
  if (level->analysis.excluded) return "every run has too many errors";
  std::size_t left_out = 0;
  double least = 100;
  double most = 0;
  for (const analysis::Measurement& repetition : level->repetitions) {
    if (level->counts(repetition)) continue;
    ++left_out;
    least = std::min(least, repetition.analysis.error_pct.value_or(0));
    most = std::max(most, repetition.analysis.error_pct.value_or(0));
  }
  if (left_out == 0) return {};
  return fmt::format("{} run{} excluded ({}{} errors)", left_out, left_out == 1 ? "" : "s",
                     left_out == 1 ? "" : render::format_fixed(least, 1) + " to ", render::format_pct(most));
}

std::string error_cell(const analysis::MeasuredLevel* level) {
  std::string cell = cell_of(level, analysis::figure::error_pct, render::format_pct);
  if (level != nullptr && level->analysis.excluded) cell += " (excluded)";
  return cell;
}

render::Table level_table(const analysis::RunAnalysis& analysis, const std::vector<LevelColumn>& columns) {
  render::Table table;
  table.columns.push_back({"Concurrency"});
  for (const LevelColumn& column : columns) table.columns.push_back({column.title});
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    std::vector<std::string> row = {fmt::format("{}", concurrency)};
    for (const LevelColumn& column : columns) row.push_back(column.cell(concurrency));
    table.rows.push_back(std::move(row));
  }
  return table;
}

LevelColumn column_of(const analysis::RunAnalysis& analysis, const spec::Arm& mode, std::string title,
                      analysis::LevelFigure figure, Format format) {
  return {std::move(title), [&analysis, mode, figure, format](std::uint32_t concurrency) {
            return cell_of(analysis.find(mode, concurrency), figure, format);
          }};
}

LevelColumn error_column(const analysis::RunAnalysis& analysis, const spec::Arm& mode, std::string title) {
  return {std::move(title),
          [&analysis, mode](std::uint32_t concurrency) { return error_cell(analysis.find(mode, concurrency)); }};
}

/// "RR TTFT p50".
std::string title_of(const spec::Arm& mode, const NamedFigure& named) {
  return fmt::format("{} {}", analysis::short_name(mode), named.mode_title);
}

/// "RR TTFT p50", "KV TTFT p50": one column per mode.
void add_pair(std::vector<LevelColumn>& columns, const analysis::RunAnalysis& analysis, Metric metric, Format format) {
  const NamedFigure& named = analysis::figure_of(metric);
  for (const spec::Arm& mode : analysis.modes())
    columns.push_back(column_of(analysis, mode, title_of(mode, named), named.figure, format));
}
void add_pair(std::vector<LevelColumn>& columns, const analysis::RunAnalysis& analysis, Metric metric) {
  add_pair(columns, analysis, metric, analysis::figure_of(metric).format);
}

LevelColumn improvement_column(const analysis::RunAnalysis& analysis, const char* title, analysis::LevelFigure figure) {
  return {title, [&analysis, figure](std::uint32_t concurrency) {
            const std::vector<spec::Arm>& modes = analysis.modes();
            return render::format_pct(analysis::improvement_pct(analysis.find(modes[0], concurrency),
                                                                analysis.find(modes[1], concurrency), figure));
          }};
}

}  // namespace

void add_two_mode_tables(render::Document& document, const analysis::RunAnalysis& analysis) {
  std::vector<LevelColumn> results;
  add_pair(results, analysis, Metric::kTtftP50);
  results.push_back(improvement_column(analysis, "p50 Improvement", analysis::figure::ttft_p50_ms));
  add_pair(results, analysis, Metric::kTtftP95);
  results.push_back(improvement_column(analysis, "p95 Improvement", analysis::figure::ttft_p95_ms));
  add_pair(results, analysis, Metric::kHitRatePct);
  document.push_back(render::Heading{3, "Results, published method"});
  document.push_back(level_table(analysis, results));

  std::vector<LevelColumn> errors;
  for (const spec::Arm& mode : analysis.modes()) {
    errors.push_back(error_column(analysis, mode, title_of(mode, analysis::figure_of(Metric::kErrorPct))));
  }
  document.push_back(render::Heading{3, "Error Rates"});
  document.push_back(level_table(analysis, errors));

  std::vector<LevelColumn> throughput;
  add_pair(throughput, analysis, Metric::kThroughput);
  document.push_back(render::Heading{3, "Throughput (Output Tokens/s)"});
  document.push_back(level_table(analysis, throughput));

  std::vector<LevelColumn> tpot;
  add_pair(tpot, analysis, Metric::kTpotP50);
  add_pair(tpot, analysis, Metric::kTpotP95);
  document.push_back(render::Heading{3, "TPOT -- Time Per Output Token (ITL)"});
  document.push_back(level_table(analysis, tpot));

  std::vector<LevelColumn> latency;
  // In milliseconds here, as published: the documents of one mode have seconds.
  add_pair(latency, analysis, Metric::kLatencyP50, render::format_ms);
  add_pair(latency, analysis, Metric::kLatencyP95, render::format_ms);
  document.push_back(render::Heading{3, "End-to-End Latency"});
  document.push_back(level_table(analysis, latency));
}

void add_single_mode_tables(render::Document& document, const analysis::RunAnalysis& analysis, const spec::Arm& mode) {
  const auto column = [&](Metric metric) {
    const NamedFigure& named = analysis::figure_of(metric);
    return column_of(analysis, mode, std::string(named.title), named.figure, named.format);
  };
  const auto errors = [&] {
    return error_column(analysis, mode, std::string(analysis::figure_of(Metric::kErrorPct).title));
  };
  const std::string prefix =
      analysis.modes().size() > 1 ? fmt::format("{}: ", analysis::single_mode_name(mode)) : std::string();
  const auto add = [&](const char* heading, const std::vector<LevelColumn>& columns) {
    document.push_back(render::Heading{3, prefix + heading});
    document.push_back(level_table(analysis, columns));
  };
  std::vector<LevelColumn> tpot = {column(Metric::kTpotP50), column(Metric::kTpotP95), errors()};
  if (analysis.repeated()) tpot.push_back(valid_column(analysis, mode));
  add("TPOT -- Time Per Output Token (ITL)", tpot);
  add("TTFT -- Time to First Token", {column(Metric::kTtftP50), column(Metric::kTtftP95)});
  add("End-to-End Latency", {column(Metric::kLatencyP50), column(Metric::kLatencyP95)});
  std::vector<LevelColumn> error_rates = {errors()};
  if (analysis.repeated()) {
    error_rates.push_back(
        {"Notes", [&](std::uint32_t concurrency) { return note_of(analysis.find(mode, concurrency)); }});
  }
  add("Error Rates", error_rates);
  add("Actual RPS (Conversation Starts/s)", {column(Metric::kTurnRate)});
  document.push_back(
      render::Paragraph{{render::strong("Note:"),
                         {" the published name says conversation starts, the published figures count turns; so "
                          "does this table. Conversation starts stand under \"Turns per second\"."}}});
  add("Throughput (Output Tokens/s)", {column(Metric::kThroughput)});
}

}  // namespace kvist::report

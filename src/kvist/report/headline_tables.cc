#include <fmt/format.h>

#include <algorithm>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/client_text.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

using analysis::Headline;
using analysis::HeadlineFigure;

/// One row per level, columns added one after the other.
class LevelTable {
 public:
  explicit LevelTable(const analysis::RunAnalysis& analysis) : analysis_(analysis) {
    table_.columns.push_back({spec_is_open() ? "Starts/min" : "Concurrency"});
    for (const std::uint32_t concurrency : analysis.concurrencies()) {
      table_.rows.push_back({level_label(analysis, concurrency)});
    }
  }

  /// One column per mode; all with the same decimals, so that they can be compared.
  void add(Headline which, const std::vector<spec::Arm>& modes, double factor = 1) {
    const HeadlineFigure& figure = analysis::headline(which);
    std::vector<const analysis::MeasuredLevel*> levels;
    for (const spec::Arm& mode : modes) {
      table_.columns.push_back({modes.size() > 1 || analysis_.modes().size() == 2
                                    ? fmt::format("{} {}", analysis::short_name(mode), figure.title)
                                    : std::string(figure.title)});
      for (const std::uint32_t concurrency : analysis_.concurrencies()) {
        levels.push_back(analysis_.find(mode, concurrency));
      }
    }
    std::vector<std::string> cells = headline_cells(levels, figure, factor);
    mark_excluded(which, levels, cells);
    for (std::size_t column = 0; column < modes.size(); ++column) {
      for (std::size_t row = 0; row < table_.rows.size(); ++row) {
        table_.rows[row].push_back(std::move(cells[column * table_.rows.size() + row]));
      }
    }
  }

  void add_gain(const char* title, Headline which) {
    table_.columns.push_back({title});
    for (std::size_t row = 0; row < table_.rows.size(); ++row) {
      const std::uint32_t concurrency = analysis_.concurrencies()[row];
      table_.rows[row].push_back(
          gain_cell(analysis::gain_of(analysis_.find(analysis_.modes()[0], concurrency),
                                      analysis_.find(analysis_.modes()[1], concurrency), analysis::headline(which))));
    }
  }

  [[nodiscard]] render::Table take() { return std::move(table_); }

 private:
  [[nodiscard]] bool spec_is_open() const { return analysis_.sweep().workload.arrivals.is_open(); }

  static void mark_excluded(Headline which, const std::vector<const analysis::MeasuredLevel*>& levels,
                            std::vector<std::string>& cells) {
    if (which != Headline::kErrorPct) return;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (levels[i] != nullptr && levels[i]->analysis.excluded) cells[i] += " (excluded)";
    }
  }

  const analysis::RunAnalysis& analysis_;
  render::Table table_;
};

void add_table(render::Document& document, const analysis::RunAnalysis& analysis, int heading_level,
               const char* heading, std::initializer_list<Headline> figures, const std::vector<spec::Arm>& modes) {
  LevelTable table(analysis);
  for (const Headline figure : figures) table.add(figure, modes);
  document.push_back(render::Heading{heading_level, heading});
  document.push_back(table.take());
}

std::string limits_text(const spec::GoodputSpec& limits) {
  std::string text;
  for (const auto& [name, limit] :
       {std::pair{"TTFT", limits.ttft}, std::pair{"TPOT", limits.tpot}, std::pair{"latency", limits.latency}}) {
    if (limit) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, render::format_duration(*limit));
  }
  return text;
}

/// The tables after the first, the same for two modes and for one.
void add_further_tables(render::Document& document, const analysis::RunAnalysis& analysis, int heading_level,
                        const std::vector<spec::Arm>& modes) {
  const auto add = [&](const char* heading, std::initializer_list<Headline> figures) {
    add_table(document, analysis, heading_level, heading, figures, modes);
  };
  add("Errors", {Headline::kErrorPct});
  add("Output tokens per second", {Headline::kThroughput});
  add("Turns per second", {Headline::kTurnRate, Headline::kConversationRate});
  if (analysis.sweep().method.goodput.is_given()) {
    add(("Goodput: turns within " + limits_text(analysis.sweep().method.goodput)).c_str(),
        {Headline::kGoodput, Headline::kGoodPct});
  }
  add("TPOT: time per output token, the mean of each request", {Headline::kTpotP50, Headline::kTpotP95});
  add("ITL: gaps between tokens, pooled", {Headline::kItlP50, Headline::kItlP95, Headline::kItlP99});
  add("Latency: from sending to the end of the answer", {Headline::kLatencyP50, Headline::kLatencyP95});
  if (spec::has_schedule(analysis.sweep().workload)) {
    add("TTFT from sending, and from the schedule: from when the turn was due",
        {Headline::kTtftP50, Headline::kTtftFromScheduleP50, Headline::kTtftP95, Headline::kTtftFromScheduleP95,
         Headline::kTtftP99, Headline::kTtftFromScheduleP99});
    add("Latency from sending, and from the schedule", {Headline::kLatencyP50, Headline::kLatencyFromScheduleP50,
                                                        Headline::kLatencyP95, Headline::kLatencyFromScheduleP95});
  }
}

void add_exclusion_note(render::Document& document, const analysis::RunAnalysis& analysis) {
  std::string excluded;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    if (!level.analysis.excluded) continue;
    excluded +=
        fmt::format("{}{} at {} ({} errors)", excluded.empty() ? "" : ", ", analysis::short_name(level.analysis.mode),
                    level.analysis.concurrency, render::format_pct(level.analysis.error_pct));
  }
  if (excluded.empty()) return;
  document.push_back(
      render::Paragraph{{render::strong("Excluded"),
                         {fmt::format(" for more than {} errors, and left out of gains and the summary: {}.",
                                      render::format_pct(analysis.sweep().method.max_error_pct), excluded)}}});
}

void add_client_note(render::Document& document, const analysis::RunAnalysis& analysis) {
  std::string degraded;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    if (!client_degraded(analysis, level)) continue;
    degraded += fmt::format("{}{} at {} ({})", degraded.empty() ? "" : "; ", analysis::short_name(level.analysis.mode),
                            level.analysis.concurrency, verdict_text(level.analysis.client));
  }
  if (degraded.empty()) return;
  document.push_back(render::Paragraph{
      {render::strong("Client:"),
       {" the load generator was too busy to measure well, so its own delays are part of these figures: " + degraded +
        "."}}});
}

std::string interval_text(const analysis::RunAnalysis& analysis) {
  if (!analysis.repeated()) {
    return "In parentheses: 95 % interval, by resampling whole conversations (1,000 times; turns of one conversation "
           "depend "
           "on "
           "each other). None where fewer than 10 conversations or fewer than 5 turns beyond the percentile leave it "
           "unknown.";
  }
  if (analysis.same_requests()) {
    return "The repetitions replay the same requests, so they are one sample of the load: means over them, and in "
           "parentheses the 95 % interval by resampling whole conversations of the trace, as for one repetition.";
  }
  return "Means over the repetitions. In parentheses: 95 % interval, with three or more repetitions by Student's t "
         "over "
         "their "
         "values, with two by resampling whole conversations.";
}

void add_note(render::Document& document, const analysis::RunAnalysis& analysis) {
  std::string text =
      "Exact percentiles over all successful turns sent within the measuring window; rates over what happened within "
      "it. " +
      interval_text(analysis);
  if (analysis.sweep().method.between_levels == spec::BetweenLevels::kContinue) {
    text += " Rates are means of the snapshots here, because turns of the level before go on within the window.";
  }
  document.push_back(render::Paragraph{{{std::move(text)}}});
}

}  // namespace

void add_two_mode_headline(render::Document& document, const analysis::RunAnalysis& analysis) {
  LevelTable results(analysis);
  results.add(Headline::kTtftP50, analysis.modes());
  results.add_gain("p50 gain", Headline::kTtftP50);
  results.add(Headline::kTtftP95, analysis.modes());
  results.add_gain("p95 gain", Headline::kTtftP95);
  results.add(Headline::kHitRatePct, analysis.modes());
  document.push_back(render::Heading{2, "Results"});
  document.push_back(results.take());
  add_client_note(document, analysis);
  add_exclusion_note(document, analysis);
  add_note(document, analysis);
  document.push_back(
      render::Paragraph{{{"Gain: by how much the second mode's figure is below the first's; its interval is that of "
                          "the same conversations "
                          "in both modes."}}});
  add_model_time(document, analysis, 3);
  add_further_tables(document, analysis, 3, analysis.modes());
}

void add_single_mode_headline(render::Document& document, const analysis::RunAnalysis& analysis,
                              const spec::Arm& mode) {
  add_table(document, analysis, 2, "TTFT: time to first token",
            {Headline::kTtftP50, Headline::kTtftP95, Headline::kTtftP99, Headline::kHitRatePct}, {mode});
  add_client_note(document, analysis);
  add_exclusion_note(document, analysis);
  add_note(document, analysis);
  add_further_tables(document, analysis, 2, {mode});
}

void add_model_time(render::Document& document, const analysis::RunAnalysis& analysis, int heading_level) {
  const std::optional<double> scale = analysis.time_scale();
  if (!scale || *scale == 1.0) return;
  LevelTable table(analysis);
  for (const Headline figure : {Headline::kTtftP50, Headline::kTtftP95, Headline::kTpotP50, Headline::kTpotP95,
                                Headline::kItlP95, Headline::kLatencyP50, Headline::kLatencyP95}) {
    table.add(figure, analysis.modes(), *scale);
  }
  document.push_back(
      render::Heading{heading_level, fmt::format("In model time (measured x {})", render::format_plain(*scale))});
  document.push_back(table.take());
}

}  // namespace kvist::report

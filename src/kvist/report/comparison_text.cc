#include "kvist/report/comparison_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"

namespace kvist::report {
namespace {

constexpr std::array kVerdicts = {analysis::PairedVerdict::kBetter, analysis::PairedVerdict::kEqual,
                                  analysis::PairedVerdict::kWorse, analysis::PairedVerdict::kOpen,
                                  analysis::PairedVerdict::kRefused};

std::string change_text(const analysis::ComparedFigure& figure, double value) {
  return figure.is_percentage() ? fmt::format("{:+.1f}", value) : fmt::format("{:.3f}", value);
}

/// All modes of all runs, in the order of their first mention.
std::vector<spec::Arm> modes_of(std::span<const analysis::RunComparison> runs) {
  std::vector<spec::Arm> modes;
  for (const analysis::RunComparison& run : runs) {
    for (const spec::Arm& mode : run.modes) {
      if (std::ranges::find(modes, mode) == modes.end()) modes.push_back(mode);
    }
  }
  return modes;
}

std::size_t count(std::span<const analysis::RunComparison> runs, const spec::Arm& mode, std::size_t figure,
                  analysis::PairedVerdict verdict) {
  std::size_t n = 0;
  for (const analysis::RunComparison& run : runs) n += run.count(mode, figure, verdict);
  return n;
}

void write_figure(JsonWriter& json, const analysis::ComparedFigure& figure,
                  const analysis::FigureComparison& comparison) {
  json.key(figure.key).begin_object();
  constexpr double kMissingNumber = std::numeric_limits<double>::quiet_NaN();
  json.rounded_field("baseline", comparison.baseline.value_or(kMissingNumber));
  json.rounded_field("candidate", comparison.candidate.value_or(kMissingNumber));
  const bool any = comparison.change.pairs > 0;
  json.field("pairs", comparison.change.pairs);
  json.rounded_field(figure.is_percentage() ? "difference" : "ratio",
                     any ? comparison.change.estimate : kMissingNumber);
  json.rounded_field("low", comparison.change.low);
  json.rounded_field("high", comparison.change.high);
  json.rounded_field(figure.is_percentage() ? "detectable_points" : "detectable_pct",
                     comparison.detectable.value_or(kMissingNumber));
  json.field("verdict", to_string(comparison.verdict)).end_object();
}

void write_combined(JsonWriter& json, std::span<const analysis::RunComparison> runs) {
  json.key("combined").begin_array();
  for (const spec::Arm& mode : modes_of(runs)) {
    json.begin_object().field("mode", to_string(mode));
    for (std::size_t i = 0; i < analysis::kComparedFigures.size(); ++i) {
      json.key(analysis::kComparedFigures[i].key).begin_object();
      json.field("verdict", to_string(combined_verdict(runs, mode, i)));
      for (const analysis::PairedVerdict verdict : kVerdicts)
        json.field(to_string(verdict), count(runs, mode, i, verdict));
      json.end_object();
    }
    json.end_object();
  }
  json.end_array();
}

/// "ttft_p50_ms 3.1 %, ...": the smallest changes that the pairs of a level would have shown.
std::string detectable_text(const analysis::LevelComparison& level) {
  std::string text;
  for (std::size_t i = 0; i < analysis::kComparedFigures.size(); ++i) {
    const analysis::ComparedFigure& figure = analysis::kComparedFigures[i];
    const std::optional<double>& change = level.figures[i].detectable;
    if (!change) continue;
    text += fmt::format("{}{} {:.{}f}{}", text.empty() ? "" : ", ", figure.figure().title, *change,
                        *change < 10 ? 1 : 0, figure.is_percentage() ? " points" : " %");
  }
  return text;
}

/// Why levels were refused, and what the pairs of the others would have shown.
std::string notes_text(const analysis::RunComparison& comparison, const spec::Arm& mode) {
  std::string text;
  for (const analysis::LevelComparison& level : comparison.levels) {
    if (level.mode != mode) continue;
    for (const std::string& reason : level.refused) {
      text += fmt::format("At {} refused: {}.\n", level.concurrency, reason);
    }
    const std::string detectable = detectable_text(level);
    if (detectable.empty()) continue;
    text += fmt::format("At {} a change would have been found with {:.0f} % probability from: {}.\n", level.concurrency,
                        100 * analysis::kDetectionPower, detectable);
  }
  return text;
}

std::string lost_text(const analysis::RunComparison& comparison, const spec::Arm& mode) {
  std::string text;
  for (const analysis::LevelComparison& level : comparison.levels) {
    if (level.mode != mode || level.lost_to_errors == 0) continue;
    text += fmt::format("At {}, {} repetitions of {} have too many errors to be compared: every figure is worse.\n",
                        level.concurrency, level.lost_to_errors, to_string(mode));
  }
  return text;
}

}  // namespace

std::string_view to_string(analysis::PairedVerdict verdict) {
  switch (verdict) {
    case analysis::PairedVerdict::kBetter:
      return "better";
    case analysis::PairedVerdict::kEqual:
      return "equal";
    case analysis::PairedVerdict::kWorse:
      return "worse";
    case analysis::PairedVerdict::kOpen:
      return "open";
    case analysis::PairedVerdict::kRefused:
      return "refused";
  }
  return "open";
}

std::string change_cell(const analysis::ComparedFigure& figure, const analysis::FigureComparison& comparison) {
  const analysis::PairedChange& change = comparison.change;
  if (change.pairs == 0) {
    if (comparison.verdict == analysis::PairedVerdict::kRefused) return "refused";
    return comparison.verdict == analysis::PairedVerdict::kWorse ? "worse (errors)" : std::string(render::kMissing);
  }
  std::string text = change_text(figure, change.estimate);
  if (change.pairs > 1) {
    text += fmt::format(" ({} to {})", change_text(figure, change.low), change_text(figure, change.high));
  }
  return fmt::format("{} {}", text, to_string(comparison.verdict));
}

render::Table comparison_table(const analysis::RunComparison& comparison, const spec::Arm& mode) {
  render::Table table;
  table.columns = {{"Level"}, {"Pairs"}};
  for (const analysis::ComparedFigure& figure : analysis::kComparedFigures) {
    table.columns.push_back({fmt::format("{}{}", figure.figure().title, figure.is_percentage() ? ", points" : "")});
  }
  for (const analysis::LevelComparison& level : comparison.levels) {
    if (level.mode != mode) continue;
    std::size_t pairs = 0;
    for (const analysis::FigureComparison& figure : level.figures) pairs = std::max(pairs, figure.change.pairs);
    std::vector<std::string> row = {fmt::format("{}", level.concurrency), fmt::format("{}", pairs)};
    for (std::size_t i = 0; i < analysis::kComparedFigures.size(); ++i) {
      row.push_back(change_cell(analysis::kComparedFigures[i], level.figures[i]));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

analysis::PairedVerdict combined_verdict(std::span<const analysis::RunComparison> runs, const spec::Arm& mode,
                                         std::size_t figure) {
  for (const analysis::PairedVerdict verdict : {analysis::PairedVerdict::kRefused, analysis::PairedVerdict::kWorse,
                                                analysis::PairedVerdict::kBetter, analysis::PairedVerdict::kEqual}) {
    if (count(runs, mode, figure, verdict) > 0) return verdict;
  }
  return analysis::PairedVerdict::kOpen;
}

render::Table combined_table(std::span<const analysis::RunComparison> runs) {
  render::Table table;
  table.columns = {{"Mode", render::Align::kLeft}};
  for (const analysis::ComparedFigure& figure : analysis::kComparedFigures)
    table.columns.push_back({std::string(figure.figure().title)});
  for (const spec::Arm& mode : modes_of(runs)) {
    std::vector<std::string> row = {std::string(to_string(mode))};
    for (std::size_t i = 0; i < analysis::kComparedFigures.size(); ++i) {
      row.push_back(fmt::format("{}: {}/{}/{}", to_string(combined_verdict(runs, mode, i)),
                                count(runs, mode, i, analysis::PairedVerdict::kBetter),
                                count(runs, mode, i, analysis::PairedVerdict::kEqual),
                                count(runs, mode, i, analysis::PairedVerdict::kWorse)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string comparison_method() {
  return fmt::format(
      "Both modes drive the same conversations from the same seeds, so each repetition is a pair. Times and tokens/s: "
      "geometric mean of the pairs' ratios to the baseline, with the {:.0f} % interval by Student's t on their "
      "logarithms; hit rate: mean difference in points with the interval on the differences. Better or worse: the "
      "interval excludes 1 (0 points); equal: it does not. Between equal policies one cell in 40 comes out as worse "
      "and one as better by chance.",
      100 * analysis::kPairedConfidence);
}

void write_comparison(JsonWriter& json, const analysis::RunComparison& comparison) {
  json.begin_object().field("name", comparison.name).field("baseline", to_string(comparison.baseline));
  json.field("confidence", analysis::kPairedConfidence).key("levels").begin_array();
  for (const analysis::LevelComparison& level : comparison.levels) {
    json.begin_object().field("mode", to_string(level.mode)).field("concurrency", level.concurrency);
    json.field("lost_to_errors", level.lost_to_errors).key("refused").begin_array();
    for (const std::string& reason : level.refused) json.value(reason);
    json.end_array();
    for (std::size_t i = 0; i < analysis::kComparedFigures.size(); ++i)
      write_figure(json, analysis::kComparedFigures[i], level.figures[i]);
    json.end_object();
  }
  json.end_array().end_object();
}

std::string comparisons_json(std::span<const analysis::RunComparison> runs) {
  JsonWriter json(2);
  json.begin_object().key("runs").begin_array();
  for (const analysis::RunComparison& run : runs) write_comparison(json, run);
  json.end_array();
  write_combined(json, runs);
  json.end_object();
  return json.take() + "\n";
}

std::string comparisons_text(std::span<const analysis::RunComparison> runs) {
  std::string text;
  for (const analysis::RunComparison& run : runs) {
    for (const spec::Arm& mode : run.modes) {
      text += fmt::format("{}: {} against {}\n", run.name, to_string(mode), to_string(run.baseline));
      text +=
          render::render_text_table(comparison_table(run, mode)) + lost_text(run, mode) + notes_text(run, mode) + "\n";
    }
  }
  text += "All levels: verdict: better/equal/worse\n" + render::render_text_table(combined_table(runs));
  return text;
}

void add_comparison(render::Document& document, const analysis::RunAnalysis& analysis) {
  if (!analysis::is_comparable(analysis)) return;
  const Result<analysis::RunComparison> comparison = analysis::compare_modes(analysis);
  if (!comparison) return;  // no mode was measured
  document.push_back(render::Heading{2, "Modes compared, paired over seeds"});
  document.push_back(render::Paragraph{{{comparison_method()}}});
  for (const spec::Arm& mode : comparison->modes) {
    document.push_back(
        render::Paragraph{{render::strong(fmt::format("{} against {}", analysis::long_name(mode),
                                                      analysis::long_name(comparison->baseline))),
                           {lost_text(*comparison, mode).empty() ? "" : " " + lost_text(*comparison, mode)}}});
    document.push_back(comparison_table(*comparison, mode));
    const std::string notes = notes_text(*comparison, mode);
    render::Bullets bullets;
    for (std::size_t at = 0; at < notes.size();) {
      const std::size_t end = notes.find('\n', at);
      bullets.items.push_back({{notes.substr(at, end - at)}});
      at = end + 1;
    }
    if (!bullets.items.empty()) document.push_back(std::move(bullets));
  }
}

}  // namespace kvist::report

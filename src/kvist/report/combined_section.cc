#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

using analysis::Headline;
using analysis::MeasuredLevel;

/// The levels of an arm that count and have a figure, ascending.
std::vector<const MeasuredLevel*> levels_with(const analysis::RunAnalysis& analysis, const spec::Arm& arm,
                                              const analysis::HeadlineFigure& figure) {
  std::vector<const MeasuredLevel*> levels;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const MeasuredLevel* level = analysis.find(arm, concurrency);
    if (level == nullptr || level->analysis.excluded || !analysis::estimate_of(*level, figure).value) continue;
    levels.push_back(level);
  }
  return levels;
}

double value_of(const MeasuredLevel* level, const analysis::HeadlineFigure& figure) {
  return analysis::estimate_of(*level, figure).value.value_or(0);
}

std::string cell_of(const MeasuredLevel* level, const analysis::HeadlineFigure& figure) {
  return headline_cells({&level, 1}, figure).front();
}

/// Levels and TPOT p95 below each other, as columns of a plain text.
void add_curve(render::Document& document, const analysis::RunAnalysis& analysis, const spec::Arm& arm) {
  const analysis::HeadlineFigure& figure = analysis::headline(Headline::kTpotP95);
  std::string concurrencies = "Conc:";
  std::string values = "p95: ";
  for (const MeasuredLevel* level : levels_with(analysis, arm, figure)) {
    const std::string value = render::format_ms(value_of(level, figure));
    const std::string concurrency = fmt::format("{}", level->analysis.concurrency);
    const std::size_t width = std::max(value.size(), concurrency.size()) + 2;
    concurrencies += fmt::format("{:>{}}", concurrency, width);
    values += fmt::format("{:>{}}", value, width);
  }
  document.push_back(render::CodeBlock{"", concurrencies + "\n" + values + "\n"});
}

/// From the lowest to the highest level, and where it grew most from one level to the next.
render::Text growth_item(const analysis::RunAnalysis& analysis, const spec::Arm& arm, Headline which) {
  const analysis::HeadlineFigure& figure = analysis::headline(which);
  const std::vector<const MeasuredLevel*> levels = levels_with(analysis, arm, figure);
  render::Text text = {render::strong(fmt::format("{}:", figure.title))};
  if (levels.size() < 2) {
    text.push_back({" " + std::string(render::kMissing)});
    return text;
  }
  const double first = value_of(levels.front(), figure);
  const double last = value_of(levels.back(), figure);
  std::string words =
      fmt::format(" {} at {}, {} at {}", cell_of(levels.front(), figure), levels.front()->analysis.concurrency,
                  cell_of(levels.back(), figure), levels.back()->analysis.concurrency);
  if (first > 0) words += fmt::format(" ({:.1f} times)", last / first);
  std::size_t steepest = 0;
  double most = 0;
  for (std::size_t i = 1; i < levels.size(); ++i) {
    const double before = value_of(levels[i - 1], figure);
    if (before <= 0 || value_of(levels[i], figure) / before - 1 <= most) continue;
    most = value_of(levels[i], figure) / before - 1;
    steepest = i;
  }
  if (steepest > 0) {
    words += fmt::format("; the largest step is from {} to {}: +{:.0f}%", levels[steepest - 1]->analysis.concurrency,
                         levels[steepest]->analysis.concurrency, 100 * most);
  }
  text.push_back({words + "."});
  return text;
}

render::Text errors_item(const analysis::RunAnalysis& analysis, const spec::Arm& arm) {
  std::string text;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const MeasuredLevel* level = analysis.find(arm, concurrency);
    if (level == nullptr) continue;
    const std::size_t left_out = level->repetitions.size() - level->counted();
    if (level->analysis.error_pct.value_or(0) <= 0 && left_out == 0) continue;
    text +=
        fmt::format("{}{} at {}", text.empty() ? "" : ", ", render::format_pct(level->analysis.error_pct), concurrency);
    if (left_out > 0) text += fmt::format(" ({} of {} runs excluded)", left_out, level->repetitions.size());
  }
  return {render::strong("Errors:"), {text.empty() ? " none." : " " + text + "."}};
}

}  // namespace

void add_combined(render::Document& document, const analysis::RunAnalysis& analysis) {
  const std::vector<results::RunSource>& sources = analysis.run().sources;
  if (sources.empty()) return;
  document.push_back(render::Heading{2, "Analysis"});
  for (const spec::Arm& arm : analysis.modes()) {
    const std::string suffix =
        analysis.modes().size() > 1 ? fmt::format(": {}", analysis::single_mode_name(arm)) : std::string();
    document.push_back(render::Heading{3, "TPOT Degradation Curve" + suffix});
    add_curve(document, analysis, arm);
    document.push_back(render::Heading{3, "Key Findings" + suffix});
    document.push_back(
        render::Bullets{{growth_item(analysis, arm, Headline::kTpotP50), growth_item(analysis, arm, Headline::kTpotP95),
                         growth_item(analysis, arm, Headline::kTtftP50), growth_item(analysis, arm, Headline::kTtftP95),
                         growth_item(analysis, arm, Headline::kLatencyP95),
                         growth_item(analysis, arm, Headline::kTurnRate), errors_item(analysis, arm)}});
  }
  document.push_back(render::Heading{3, "Source Data"});
  render::Bullets parts;
  for (const results::RunSource& source : sources) {
    parts.items.push_back(
        {render::strong(source.levels + ":"),
         {" "},
         render::code(source.place),
         {fmt::format(" ({}, {})", source.name,
                      source.started_utc.empty() ? "unknown time" : render::format_utc(source.started_utc))}});
  }
  document.push_back(std::move(parts));
}

}  // namespace kvist::report

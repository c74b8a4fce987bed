#include "kvist/report/run_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "kvist/analysis/mode_names.h"
#include "kvist/base/json_writer.h"
#include "kvist/render/figures.h"
#include "kvist/render/table.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/sweep_document.h"

namespace kvist::report {
namespace {

using analysis::FigureChange;
using analysis::Headline;
using analysis::MeasuredLevel;
using analysis::PairedVerdict;
using analysis::RunPair;

/// One of the published tables.
struct PhaseTable {
  const char* title;
  std::vector<Headline> figures;
};
const std::array<PhaseTable, 6>& phase_tables() {
  static const std::array<PhaseTable, 6> kTables = {
      {{"TPOT Comparison", {Headline::kTpotP50, Headline::kTpotP95}},
       {"TTFT Comparison", {Headline::kTtftP50, Headline::kTtftP95}},
       {"ITL Comparison", {Headline::kItlP50, Headline::kItlP95}},
       {"Latency Comparison", {Headline::kLatencyP50, Headline::kLatencyP95}},
       {"Throughput Comparison", {Headline::kThroughput}},
       {"Error Rates and Hit Rates", {Headline::kErrorPct, Headline::kHitRatePct}}}};
  return kTables;
}

constexpr std::array kConcluded = {Headline::kTtftP50,  Headline::kTtftP95,    Headline::kTpotP50,
                                   Headline::kItlP95,   Headline::kLatencyP95, Headline::kThroughput,
                                   Headline::kErrorPct, Headline::kHitRatePct};

/// More settings than this do not say what was changed.
constexpr std::size_t kMostSettings = 40;

std::string signed_number(double value, int decimals) {
  std::string text = fmt::format("{:+.{}f}", value, decimals);
  const bool is_zero = text.find_first_of("123456789") == std::string::npos;
  if (is_zero) text.front() = '+';  // a little below 0 is no change either
  return text;
}

std::string_view word_of(PairedVerdict verdict) {
  switch (verdict) {
    case PairedVerdict::kBetter:
      return " better";
    case PairedVerdict::kWorse:
      return " worse";
    case PairedVerdict::kEqual:
      return " equal";
    case PairedVerdict::kOpen:
    case PairedVerdict::kRefused:
      break;
  }
  return "";
}

/// "+48.1% (46.0 to 50.2) worse"; without an interval nothing is said of better or worse.
std::string change_text(const FigureChange& change, const analysis::HeadlineFigure& figure) {
  if (!change.change.value) return std::string(render::kMissing);
  std::string text = signed_number(*change.change.value, 1) + (figure.is_percentage() ? " points" : "%");
  if (const auto& interval = change.change.interval) {
    text += fmt::format(" ({} to {})", signed_number(interval->low, 1), signed_number(interval->high, 1));
  }
  return text.append(word_of(change.verdict));
}

const MeasuredLevel* level_of(const analysis::NamedRun& run, const spec::Arm& arm, std::uint32_t concurrency) {
  return run.analysis->find(arm, concurrency);
}

render::Table table_of(const RunPair& pair, const analysis::ArmPair& arms, const std::vector<Headline>& figures) {
  render::Table table;
  table.columns.push_back({pair.after.analysis->sweep().workload.arrivals.is_open() ? "Starts/min" : "Concurrency"});
  for (const std::uint32_t concurrency : pair.concurrencies) table.rows.push_back({fmt::format("{}", concurrency)});
  for (const Headline which : figures) {
    const analysis::HeadlineFigure& figure = analysis::headline(which);
    std::vector<const MeasuredLevel*> levels;
    for (const std::uint32_t concurrency : pair.concurrencies) {
      levels.push_back(level_of(pair.before, arms.before, concurrency));
    }
    for (const std::uint32_t concurrency : pair.concurrencies) {
      levels.push_back(level_of(pair.after, arms.after, concurrency));
    }
    const std::vector<std::string> cells = headline_cells(levels, figure);
    const std::size_t count = pair.concurrencies.size();
    table.columns.push_back({fmt::format("{} {}", pair.before.name, figure.title)});
    table.columns.push_back({fmt::format("{} {}", pair.after.name, figure.title)});
    table.columns.push_back({"Change"});
    for (std::size_t row = 0; row < count; ++row) {
      const FigureChange change = analysis::change_of(levels[row], levels[count + row], figure);
      table.rows[row].push_back(cells[row]);
      table.rows[row].push_back(cells[count + row]);
      table.rows[row].push_back(change_text(change, figure));
    }
  }
  return table;
}

/// "Concurrency 110 (1.7%)": the first level with some property.
std::string first_level(const analysis::NamedRun& run, const spec::Arm& arm,
                        const std::function<std::optional<std::string>(const MeasuredLevel&)>& property) {
  const std::vector<std::uint32_t>& all = run.analysis->concurrencies();
  for (const std::uint32_t concurrency : all) {
    const MeasuredLevel* level = level_of(run, arm, concurrency);
    if (level == nullptr) continue;
    if (const std::optional<std::string> text = property(*level)) {
      return fmt::format("Concurrency {}{}", concurrency, text->empty() ? "" : " (" + *text + ")");
    }
  }
  return all.empty() ? std::string(render::kMissing) : fmt::format("none up to {}", all.back());
}

std::string sustained_errors(const analysis::NamedRun& run, const spec::Arm& arm) {
  std::optional<std::uint32_t> from;
  std::uint32_t last = 0;
  for (const std::uint32_t concurrency : run.analysis->concurrencies()) {
    const MeasuredLevel* level = level_of(run, arm, concurrency);
    if (level == nullptr) continue;
    last = concurrency;
    if (!level->analysis.excluded) from.reset();
    if (level->analysis.excluded && !from) from = concurrency;
  }
  return from ? fmt::format("Concurrency {}", *from) : fmt::format("none up to {}", last);
}

/// "84ms (concurrency 120)": the level with the largest value.
std::string largest(const analysis::NamedRun& run, const spec::Arm& arm, Headline which) {
  const analysis::HeadlineFigure& figure = analysis::headline(which);
  const MeasuredLevel* found = nullptr;
  for (const std::uint32_t concurrency : run.analysis->concurrencies()) {
    const MeasuredLevel* level = level_of(run, arm, concurrency);
    if (level == nullptr || !figure.figure(level->analysis)) continue;
    if (found == nullptr || *figure.figure(level->analysis) > *figure.figure(found->analysis)) found = level;
  }
  if (found == nullptr) return std::string(render::kMissing);
  return fmt::format("{} (concurrency {})", headline_cells({&found, 1}, figure).front(), found->analysis.concurrency);
}

render::Table saturation_table(const RunPair& pair, const analysis::ArmPair& arms) {
  constexpr double kSecond = 1'000;
  render::Table table;
  table.columns = {{"Metric", render::Align::kLeft}, {pair.before.name}, {pair.after.name}};
  const auto add = [&](std::string title, const auto& cell) {
    table.rows.push_back({std::move(title), cell(pair.before, arms.before), cell(pair.after, arms.after)});
  };
  add("First errors", [](const analysis::NamedRun& run, const spec::Arm& arm) {
    return first_level(run, arm, [](const MeasuredLevel& level) -> std::optional<std::string> {
      if (level.analysis.error_pct.value_or(0) <= 0) return std::nullopt;
      return render::format_pct(level.analysis.error_pct);
    });
  });
  const double most = pair.after.analysis->sweep().method.max_error_pct;
  add(fmt::format("Sustained >{}% errors", render::format_plain(most)), sustained_errors);
  add("TTFT p50 > 1s", [](const analysis::NamedRun& run, const spec::Arm& arm) {
    return first_level(run, arm, [](const MeasuredLevel& level) -> std::optional<std::string> {
      const std::optional<double> p50 = analysis::headline(Headline::kTtftP50).figure(level.analysis);
      return p50 && *p50 > kSecond ? std::optional(std::string()) : std::nullopt;
    });
  });
  for (const auto& [title, figure] :
       {std::pair{"Highest TPOT p50", Headline::kTpotP50}, std::pair{"Most output tokens/s", Headline::kThroughput}}) {
    add(title, [figure](const analysis::NamedRun& run, const spec::Arm& arm) { return largest(run, arm, figure); });
  }
  return table;
}

void add_baseline_reference(render::Document& document, const RunPair& pair) {
  const results::RunRecord& run = pair.before.analysis->run();
  document.push_back(render::Heading{3, pair.before.name + " Baseline Reference"});
  const std::vector<analysis::SettingChange> changes =
      analysis::setting_changes(pair.before.analysis->sweep(), pair.after.analysis->sweep());
  std::string text = fmt::format("{} is the run \"{}\" of {} (levels {}).", pair.before.name, run.name,
                                 run.started_utc.empty() ? "an unknown time" : render::format_utc(run.started_utc),
                                 fmt::join(pair.before.analysis->concurrencies(), ", "));
  text += changes.empty() ? " Both have the same settings." : fmt::format(" {} settings differ:", changes.size());
  document.push_back(render::Paragraph{{{std::move(text)}}});
  if (changes.empty()) return;
  render::Table table;
  table.columns = {{"Setting", render::Align::kLeft},
                   {pair.before.name, render::Align::kLeft},
                   {pair.after.name, render::Align::kLeft}};
  for (const analysis::SettingChange& change : changes) {
    if (table.rows.size() == kMostSettings) break;
    table.rows.push_back({change.key, change.before, change.after});
  }
  document.push_back(std::move(table));
  if (changes.size() <= kMostSettings) return;
  document.push_back(render::Paragraph{{{fmt::format("And {} more.", changes.size() - kMostSettings)}}});
}

/// Why levels have no change; empty if all have one.
render::Bullets not_compared(const RunPair& pair) {
  render::Bullets bullets;
  for (const analysis::ArmPair& arms : pair.arms) {
    for (const std::uint32_t concurrency : pair.concurrencies) {
      for (const auto& [run, arm] : {std::pair{&pair.before, arms.before}, std::pair{&pair.after, arms.after}}) {
        const MeasuredLevel* level = level_of(*run, arm, concurrency);
        std::string reason;
        if (level == nullptr) {
          reason = "not measured";
        } else if (level->analysis.excluded) {
          reason = fmt::format("{} errors", render::format_pct(level->analysis.error_pct));
        } else {
          reason = fmt::format("{}", fmt::join(analysis::own_objections(*level), "; "));
        }
        if (!reason.empty()) {
          bullets.items.push_back(
              {render::strong(fmt::format("{}, {} at {}:", run->name, analysis::short_name(arm), concurrency)),
               {" not compared: " + reason + "."}});
        } else if (client_degraded(*run->analysis, *level)) {
          bullets.items.push_back(
              {render::strong(fmt::format("{}, {} at {}:", run->name, analysis::short_name(arm), concurrency)),
               {fmt::format(" the load generator was {}, so its own delays are part of the figures.",
                            analysis::to_string(level->analysis.client.grade))}});
        }
      }
    }
  }
  return bullets;
}

std::string arm_suffix(const RunPair& pair, const analysis::ArmPair& arms) {
  return pair.arms.size() < 2 ? std::string() : fmt::format(": {}", analysis::long_name(arms.after));
}

/// "better at 4, equal at 1 of 5 levels: -20.3% to -1.2%"; empty if no level has a change.
std::string verdict_text(const RunPair& pair, const analysis::ArmPair& arms, const analysis::HeadlineFigure& figure) {
  std::map<PairedVerdict, std::size_t> counts;
  std::vector<double> changes;
  for (const std::uint32_t concurrency : pair.concurrencies) {
    const FigureChange change = analysis::change_of(level_of(pair.before, arms.before, concurrency),
                                                    level_of(pair.after, arms.after, concurrency), figure);
    if (!change.change.value) continue;
    ++counts[change.verdict];
    changes.push_back(*change.change.value);
  }
  if (changes.empty()) return {};
  std::string text;
  for (const auto& [verdict, count] : counts) {
    const std::string_view word = word_of(verdict);
    text += fmt::format("{}{} at {}", text.empty() ? "" : ", ", word.empty() ? "without an interval" : word.substr(1),
                        count);
  }
  const std::string_view unit = figure.is_percentage() ? " points" : "%";
  const auto [least, most] = std::ranges::minmax(changes);
  text += fmt::format(" of {} level{}: {}{}", changes.size(), changes.size() == 1 ? "" : "s", signed_number(least, 1),
                      unit);
  if (signed_number(least, 1) != signed_number(most, 1)) text += fmt::format(" to {}{}", signed_number(most, 1), unit);
  return text;
}

void write_estimate(JsonWriter& json, std::string_view key, const analysis::Estimate& estimate) {
  json.key(key).begin_object().rounded_field("value", estimate.value);
  json.rounded_field("low", estimate.interval ? std::optional(estimate.interval->low) : std::nullopt);
  json.rounded_field("high", estimate.interval ? std::optional(estimate.interval->high) : std::nullopt).end_object();
}

void write_level(JsonWriter& json, const RunPair& pair, const analysis::ArmPair& arms, std::uint32_t concurrency) {
  const MeasuredLevel* before = level_of(pair.before, arms.before, concurrency);
  const MeasuredLevel* after = level_of(pair.after, arms.after, concurrency);
  json.begin_object().field("before_mode", to_string(arms.before)).field("after_mode", to_string(arms.after));
  json.field("concurrency", concurrency).key("figures").begin_object();
  for (const analysis::HeadlineFigure& figure : analysis::headline_figures()) {
    const FigureChange change = analysis::change_of(before, after, figure);
    json.key(figure.key).begin_object();
    write_estimate(json, "before", change.before);
    write_estimate(json, "after", change.after);
    write_estimate(json, figure.is_percentage() ? "change_points" : "change_pct", change.change);
    const std::string_view verdict = word_of(change.verdict);
    json.field("verdict", verdict.empty() ? std::string_view("open") : verdict.substr(1)).end_object();
  }
  json.end_object().end_object();
}

}  // namespace

std::string change_method() {
  return fmt::format(
      "Exact figures over all turns of the measuring window. Change: from the first run's figure to the other's, in "
      "percent of the first; of percentages in points. In parentheses its {:.0f} % interval: with three or more "
      "repetitions by Student's t, over pairs where both runs have the same seeds; with fewer by resampling whole "
      "conversations. Better or worse: the interval excludes no change; equal: it does not. Without an interval "
      "nothing "
      "is said.",
      100 * analysis::kPairedConfidence);
}

render::Bullets phase_verdict(const RunPair& pair) {
  render::Bullets bullets;
  for (const analysis::ArmPair& arms : pair.arms) {
    for (const Headline which : kConcluded) {
      const std::string text = verdict_text(pair, arms, analysis::headline(which));
      if (text.empty()) continue;
      bullets.items.push_back(
          {render::strong(fmt::format("{}{}:", analysis::headline(which).title, arm_suffix(pair, arms))),
           {" " + text + "."}});
    }
  }
  return bullets;
}

render::Document phase_section(const RunPair& pair) {
  render::Document document;
  document.push_back(render::Heading{2, fmt::format("Analysis: {} vs {}", pair.after.name, pair.before.name)});
  document.push_back(render::Paragraph{{{change_method()}}});
  add_baseline_reference(document, pair);
  for (const PhaseTable& table : phase_tables()) {
    for (const analysis::ArmPair& arms : pair.arms) {
      document.push_back(render::Heading{3, table.title + arm_suffix(pair, arms)});
      document.push_back(table_of(pair, arms, table.figures));
    }
  }
  for (const analysis::ArmPair& arms : pair.arms) {
    document.push_back(render::Heading{3, "Saturation Point" + arm_suffix(pair, arms)});
    document.push_back(saturation_table(pair, arms));
  }
  document.push_back(render::Heading{3, "Conclusion"});
  document.push_back(phase_verdict(pair));
  if (render::Bullets reasons = not_compared(pair); !reasons.items.empty()) {
    document.push_back(render::Heading{3, "Not compared, or with care"});
    document.push_back(std::move(reasons));
  }
  return document;
}

std::string run_comparison_markdown(std::span<const RunPair> pairs) {
  render::Document sections;
  for (const RunPair& pair : pairs) {
    for (render::Block& block : phase_section(pair)) sections.push_back(std::move(block));
  }
  return render::markdown_of(build_document(*pairs.back().after.analysis, sections));
}

std::string run_comparison_text(std::span<const RunPair> pairs) {
  std::string text;
  for (const RunPair& pair : pairs) {
    for (const analysis::ArmPair& arms : pair.arms) {
      text += fmt::format("{} against {}{}\n", pair.after.name, pair.before.name, arm_suffix(pair, arms));
      render::Table table;
      table.columns = {{"Level"}};
      for (const Headline which : kConcluded) table.columns.push_back({std::string(analysis::headline(which).title)});
      for (const std::uint32_t concurrency : pair.concurrencies) {
        std::vector<std::string>& row = table.rows.emplace_back();
        row.push_back(fmt::format("{}", concurrency));
        for (const Headline which : kConcluded) {
          const analysis::HeadlineFigure& figure = analysis::headline(which);
          row.push_back(change_text(analysis::change_of(level_of(pair.before, arms.before, concurrency),
                                                        level_of(pair.after, arms.after, concurrency), figure),
                                    figure));
        }
      }
      text += render::render_text_table(table) + "\n";
    }
    for (const render::Text& reason : not_compared(pair).items) {
      for (const render::Span& span : reason) text += span.text;
      text += "\n";
    }
  }
  return text + change_method() + "\n";
}

std::string run_comparison_json(std::span<const RunPair> pairs) {
  JsonWriter json(2);
  json.begin_object().field("confidence", analysis::kPairedConfidence).key("changes").begin_array();
  for (const RunPair& pair : pairs) {
    json.begin_object().field("before", pair.before.name).field("after", pair.after.name);
    json.key("settings").begin_array();
    for (const analysis::SettingChange& change :
         analysis::setting_changes(pair.before.analysis->sweep(), pair.after.analysis->sweep())) {
      json.begin_object().field("key", change.key).field("before", change.before).field("after", change.after);
      json.end_object();
    }
    json.end_array().key("levels").begin_array();
    for (const analysis::ArmPair& arms : pair.arms) {
      for (const std::uint32_t concurrency : pair.concurrencies) write_level(json, pair, arms, concurrency);
    }
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take() + "\n";
}

}  // namespace kvist::report

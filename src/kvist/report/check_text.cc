#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kvist/analysis/mode_names.h"
#include "kvist/base/json_writer.h"
#include "kvist/render/figures.h"
#include "kvist/report/check_text.h"

namespace kvist::report {
namespace {

std::string deviation_text(std::optional<double> deviation, bool in_points) {
  if (!deviation || !std::isfinite(*deviation)) return std::string(render::kMissing);
  return in_points ? fmt::format("{:+.1f} points", *deviation) : fmt::format("{:+.1f}%", *deviation);
}

std::string unsigned_text(std::optional<double> deviation, bool in_points) {
  if (!deviation || !std::isfinite(*deviation)) return std::string(render::kMissing);
  return in_points ? fmt::format("{:.1f} points", *deviation) : fmt::format("{:.1f}%", *deviation);
}

std::string measured_text(const analysis::LevelDeviation& level, const analysis::NamedFigure& named) {
  if (!level.measured) return std::string(render::kMissing);
  std::string text = named.format(level.measured->mean);
  if (level.measured->count > 1) text += " ± " + named.format(level.measured->standard_deviation);
  return text;
}

/// "(1)", "(2)": the reasons of a table's cells, listed below it.
class Footnotes {
 public:
  std::string mark(const std::string& reason) {
    if (reason.empty()) return {};
    const auto known = std::ranges::find(reasons_, reason);
    const std::size_t number = static_cast<std::size_t>(known - reasons_.begin()) + 1;
    if (known == reasons_.end()) reasons_.push_back(reason);
    return fmt::format(" ({})", number);
  }
  void append_to(render::Document& document) const {
    if (reasons_.empty()) return;
    render::Bullets bullets;
    for (std::size_t i = 0; i < reasons_.size(); ++i) {
      bullets.items.push_back({{fmt::format("({}) not held against the bar: {}", i + 1, reasons_[i])}});
    }
    document.push_back(std::move(bullets));
  }

 private:
  std::vector<std::string> reasons_;
};

const analysis::LevelDeviation* find_level(const analysis::FigureCheck& check, std::uint32_t concurrency) {
  const auto found = std::ranges::find(check.levels, concurrency, &analysis::LevelDeviation::concurrency);
  return found == check.levels.end() ? nullptr : &*found;
}

std::string deviation_cell(const analysis::FigureCheck& check, const analysis::LevelDeviation& level,
                           Footnotes& notes) {
  std::string cell = deviation_text(level.deviation, check.in_points());
  if (level.use == analysis::LevelUse::kRange) {
    return cell + (level.within_range ? ", within the seeds' range" : ", outside the seeds' range");
  }
  return check.bar ? cell + notes.mark(level.use == analysis::LevelUse::kLeftOut ? level.reason : "") : cell;
}

/// One figure of all modes, side by side.
void add_figure(render::Document& document, const std::vector<const analysis::FigureCheck*>& checks,
                const std::vector<std::uint32_t>& concurrencies, int heading_level) {
  render::Table table;
  table.columns.push_back({"Concurrency"});
  for (const analysis::FigureCheck* check : checks) {
    const std::string mode = checks.size() > 1 ? analysis::short_name(check->mode) + " " : "";
    table.columns.push_back({mode + "published"});
    table.columns.push_back({mode + "kvist"});
    table.columns.push_back({mode + "deviation"});
  }
  Footnotes notes;
  for (const std::uint32_t concurrency : concurrencies) {
    std::vector<std::string> row = {fmt::format("{}", concurrency)};
    for (const analysis::FigureCheck* check : checks) {
      const analysis::LevelDeviation* level = find_level(*check, concurrency);
      if (level == nullptr) {
        row.insert(row.end(), 3, std::string(render::kMissing));
        continue;
      }
      row.push_back(check->figure->format(level->published));
      row.push_back(measured_text(*level, *check->figure));
      row.push_back(deviation_cell(*check, *level, notes));
    }
    table.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{heading_level, std::string(checks.front()->figure->title)});
  document.push_back(std::move(table));
  notes.append_to(document);
}

std::string levels_cell(const analysis::FigureCheck& check) {
  std::string text = fmt::format("{} of {}", check.counted, check.levels.size());
  if (check.range_levels > 0) text += fmt::format(", {} of {} in range", check.range_hits, check.range_levels);
  return text;
}

void level_json(JsonWriter& json, const analysis::LevelDeviation& level) {
  json.begin_object().field("concurrency", level.concurrency);
  json.rounded_field("published", level.published);
  const auto of = [&](double analysis::Spread::* figure) {
    return level.measured ? std::optional((*level.measured).*figure) : std::nullopt;
  };
  json.field("repetitions", level.measured ? level.measured->count : 0);
  json.rounded_field("mean", of(&analysis::Spread::mean));
  json.rounded_field("standard_deviation", of(&analysis::Spread::standard_deviation));
  json.rounded_field("min", of(&analysis::Spread::min));
  json.rounded_field("max", of(&analysis::Spread::max));
  json.rounded_field("deviation", level.deviation);
  constexpr std::string_view kUses[] = {"counted", "within_seeds_range", "left_out"};
  json.field("use", kUses[static_cast<std::size_t>(level.use)]).field("within_range", level.within_range);
  if (!level.reason.empty()) json.field("reason", level.reason);
  json.end_object();
}

}  // namespace

std::string verdict_text(const analysis::FigureCheck& check) {
  if (check.verdict != analysis::Verdict::kMissed) return std::string(to_string(check.verdict));
  std::string text = "missed";
  if (check.mean_absolute && *check.mean_absolute > check.bar->within_pct) {
    text += fmt::format(" by {:.1f} points", *check.mean_absolute - check.bar->within_pct);
  }
  const std::size_t outside = check.range_levels - check.range_hits;
  if (outside > 0) {
    text += fmt::format("{} {} {} outside the seeds' range", text == "missed" ? ":" : ";", outside,
                        outside == 1 ? "level" : "levels");
  }
  return text;
}

render::Table verdict_table(const analysis::ReferenceCheck& check) {
  render::Table table;
  table.columns = {{"Figure", render::Align::kLeft},
                   {"Mode", render::Align::kLeft},
                   {"Mean absolute deviation"},
                   {"Mean deviation"},
                   {"Bar"},
                   {"Levels that count"},
                   {"Verdict", render::Align::kLeft}};
  for (const analysis::FigureCheck& figure : check.figures) {
    table.rows.push_back(
        {std::string(figure.figure->title), analysis::short_name(figure.mode),
         unsigned_text(figure.mean_absolute, figure.in_points()),
         deviation_text(figure.mean_signed, figure.in_points()),
         figure.bar ? render::format_plain(figure.bar->within_pct) + "%" : std::string(render::kMissing),
         levels_cell(figure), verdict_text(figure)});
  }
  return table;
}

void add_reference_check(render::Document& document, const analysis::ReferenceCheck& check, int heading_level) {
  document.push_back(render::Heading{heading_level, "Verdicts"});
  document.push_back(verdict_table(check));
  add_figure_tables(document, check, heading_level);
}

void add_figure_tables(render::Document& document, const analysis::ReferenceCheck& check, int heading_level) {
  for (const analysis::NamedFigure& named : analysis::published_figures()) {
    std::vector<const analysis::FigureCheck*> checks;
    for (const analysis::FigureCheck& figure : check.figures) {
      if (figure.figure == &named) checks.push_back(&figure);
    }
    if (!checks.empty()) add_figure(document, checks, check.reference.concurrencies, heading_level);
  }
}

std::string reference_check_markdown(const analysis::RunAnalysis& analysis, const analysis::ReferenceCheck& check) {
  render::Document document;
  document.push_back(render::Heading{1, fmt::format("{} against {}", analysis.run().name, check.reference.name)});
  document.push_back(render::Paragraph{
      {{fmt::format("Run of {}, {}; published figures from {}. Deviation: kvist's mean over repetitions against the "
                    "published value, in percent of it; of figures in percent the difference in points.",
                    analysis.run().started_utc, analysis.run().simulated ? "simulated in virtual time" : "live",
                    check.reference.source.empty() ? check.reference.name : check.reference.source)}}});
  add_reference_check(document, check, 2);
  return render::markdown_of(document);
}

std::string reference_check_json(const analysis::RunAnalysis& analysis, const analysis::ReferenceCheck& check) {
  JsonWriter json(2);
  json.begin_object().field("run", analysis.run().name).field("simulated", analysis.run().simulated);
  json.field("reference", check.reference.name).field("source", check.reference.source);
  json.field("batch_slots", check.slots).key("figures").begin_array();
  for (const analysis::FigureCheck& figure : check.figures) {
    json.begin_object().field("metric", figure.figure->key).field("mode", spec::to_string(figure.mode));
    json.field("deviation_unit", figure.in_points() ? "points" : "%");
    json.rounded_field("mean_absolute_deviation", figure.mean_absolute);
    json.rounded_field("mean_deviation", figure.mean_signed);
    json.rounded_field("bar_pct", figure.bar ? std::optional(figure.bar->within_pct) : std::nullopt);
    json.field("levels_counted", figure.counted).field("levels_for_range", figure.range_levels);
    json.field("levels_in_range", figure.range_hits).field("verdict", to_string(figure.verdict));
    json.key("levels").begin_array();
    for (const analysis::LevelDeviation& level : figure.levels) level_json(json, level);
    json.end_array().end_object();
  }
  json.end_array().end_object();
  return json.take() + "\n";
}

std::string reference_check_terminal(const analysis::ReferenceCheck& check) {
  std::string out = render::render_text_table(verdict_table(check));
  out +=
      fmt::format("{}: {} met, {} missed, {} incomplete.\n", check.reference.name, check.count(analysis::Verdict::kMet),
                  check.count(analysis::Verdict::kMissed), check.count(analysis::Verdict::kIncomplete));
  return out;
}

}  // namespace kvist::report

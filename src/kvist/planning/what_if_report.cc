// What was asked of recorded traffic, for people and for programs.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "kvist/base/json_writer.h"
#include "kvist/planning/what_if.h"
#include "kvist/render/figures.h"
#include "kvist/render/table.h"

namespace kvist::planning {
namespace {

using render::Align;
using render::Table;

constexpr std::array kTimes = {Metric::kTtftP50, Metric::kTtftP95,    Metric::kTpotP50,
                               Metric::kTpotP95, Metric::kLatencyP50, Metric::kLatencyP95};
constexpr std::array kPrinted = {Metric::kTtftP50, Metric::kTtftP95, Metric::kTpotP50, Metric::kLatencyP50};

/// Three digits at least: what is compared differs by percents.
std::string value_text(const std::optional<double>& value, std::string_view unit) {
  if (!value) return std::string(render::kMissing);
  return fmt::format("{:.{}f} {}", *value, *value < 10 ? 2 : *value < 100 ? 1 : 0, unit);
}

std::string deviation_text(const std::optional<double>& computed, const std::optional<double>& observed) {
  if (!computed || !observed || *observed <= 0) return std::string(render::kMissing);
  return fmt::format("{:+.1f} %", 100 * (*computed / *observed - 1));
}

std::string change_text(const std::optional<Change>& change) {
  if (!change) return std::string(render::kMissing);
  const auto percent = [](double ratio) { return 100 * (ratio - 1); };
  if (!change->low) return fmt::format("{:+.0f} %", percent(change->ratio));
  return fmt::format("{:+.0f} % ({:+.0f} to {:+.0f})", percent(change->ratio), percent(*change->low),
                     percent(*change->high));
}

Table comparison_table(const WhatIf& answer) {
  Table table{
      .columns =
          {{"what did happen", Align::kLeft}, {"observed"}, {"simulated"}, {"off"}, {"with fitted times"}, {"off"}},
      .rows = {}};
  for (const Metric metric : kTimes) {
    const analysis::NamedFigure& info = analysis::figure_of(metric);
    table.rows.push_back({std::string(info.plain_title), value_text(answer.observed[metric], info.plain_unit),
                          value_text(answer.simulated[metric], info.plain_unit),
                          deviation_text(answer.simulated[metric], answer.observed[metric]),
                          value_text(answer.fitted[metric], info.plain_unit),
                          deviation_text(answer.fitted[metric], answer.observed[metric])});
  }
  const Metric hits = Metric::kHitRatePct;
  table.rows.push_back({"hit rate", render::format_pct(answer.observed[hits]),
                        render::format_pct(answer.simulated[hits]), "", render::format_pct(answer.fitted[hits]), ""});
  return table;
}

Table prediction_table(const WhatIf& answer) {
  Table table{.columns = {{"fleet", Align::kLeft}, {"mode", Align::kLeft}}, .rows = {}};
  for (const Metric metric : kPrinted) {
    table.columns.push_back({std::string(analysis::figure_of(metric).plain_title)});
    table.columns.push_back({"change"});
  }
  table.columns.push_back({"hit rate"});
  table.columns.push_back({"failed"});
  for (std::size_t i = 0; i < answer.predictions.size(); ++i) {
    const Prediction& each = answer.predictions[i];
    std::vector<std::string> row = {each.of.fleet, std::string(to_string(each.of.situation.mode))};
    for (const Metric metric : kPrinted) {
      row.push_back(value_text(each.figures[metric], analysis::figure_of(metric).plain_unit));
      row.push_back(i == 0 ? "as it was" : change_text(each.change(metric)));
    }
    row.push_back(render::format_pct(each.figures[Metric::kHitRatePct]));
    row.push_back(render::format_pct(each.figures[Metric::kErrorPct]));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string head_text(const WhatIf& answer, const std::string& name) {
  std::string text = fmt::format("{}: {} requests over {}, {} of them after an earlier answer; {} are compared", name,
                                 render::format_count(answer.requests),
                                 render::format_duration(from_seconds(std::round(answer.seconds * 10) / 10)),
                                 render::format_count(answer.following), render::format_count(answer.compared));
  if (answer.unserved > 0) text += fmt::format("; {} that no worker answered are left out", answer.unserved);
  if (answer.other_modes > 0)
    text += fmt::format("; {} of those compared were routed by another mode", answer.other_modes);
  return text + ".\n";
}

std::string factors_text(const Calibration& fit) {
  return fmt::format("steps x {:.3f}, prompt tokens x {:.3f}, {:.2f} ms more on the way in", fit.step, fit.prefill,
                     to_milliseconds(fit.way_in));
}

std::string calibration_text(const WhatIf& answer) {
  const std::string where =
      fmt::format("Fitted on every other of {} blocks of time, compared on the rest: ", answer.blocks);
  if (!answer.left_out) return where + factors_text(answer.calibration) + ".\n";
  return where + factors_text(*answer.left_out) +
         fmt::format(
             ".\nThat fit is left out, because the rest is met clearly better without it: {} requests are "
             "few to fit to. Times are as the deployment has them; a longer record would tell more.\n",
             render::format_count(answer.compared));
}

void write_factors(JsonWriter& json, const Calibration& fit) {
  json.begin_object().field("step", fit.step).field("prefill", fit.prefill);
  json.field("way_in_ms", to_milliseconds(fit.way_in)).end_object();
}

void write_figures(JsonWriter& json, std::string_view key, const LevelFigures& figures) {
  json.key(key).begin_object();
  for (const Metric metric : kMetrics) {
    if (figures[metric]) json.field(analysis::figure_of(metric).key, *figures[metric]);
  }
  json.end_object();
}

void write_prediction(JsonWriter& json, const Prediction& prediction) {
  json.begin_object().field("fleet", prediction.of.fleet).field("mode", to_string(prediction.of.situation.mode));
  json.field("workers", prediction.of.situation.deployment.workers.size());
  write_figures(json, "figures", prediction.figures);
  write_figures(json, "simulated", prediction.simulated);
  json.key("changes").begin_object();
  for (const Metric metric : kMetrics) {
    const std::optional<Change>& change = prediction.change(metric);
    if (!change) continue;
    json.key(analysis::figure_of(metric).key).begin_object().field("ratio", change->ratio);
    if (change->low) json.field("low", *change->low).field("high", *change->high);
    json.end_object();
  }
  json.end_object().end_object();
}

}  // namespace

std::string what_if_text(const WhatIf& answer, const std::string& name) {
  std::string text = head_text(answer, name) + "\n" + render_text_table(comparison_table(answer));
  text += "\n" + calibration_text(answer);
  if (answer.refusal) return text + "\nNothing is predicted: " + *answer.refusal + "\n";
  text += "\n" + render_text_table(prediction_table(answer));
  text += fmt::format(
      "\nTimes are what was observed, times the change from one simulation with fitted times to another ({} seeds "
      "each).\n"
      "The 95 % interval of a change is over {} blocks of time; what the comparison above leaves off comes on top.\n",
      answer.seeds, answer.blocks);
  return text;
}

std::string what_if_json(const WhatIf& answer, const std::string& name) {
  JsonWriter json(2);
  json.begin_object().field("record", name).field("requests", answer.requests).field("following", answer.following);
  json.field("compared", answer.compared).field("unserved", answer.unserved).field("other_modes", answer.other_modes);
  json.field("seconds", answer.seconds).field("blocks", answer.blocks).field("seeds", answer.seeds);
  write_figures(json, "observed", answer.observed);
  write_figures(json, "simulated", answer.simulated);
  write_figures(json, "fitted", answer.fitted);
  json.key("calibration");
  write_factors(json, answer.calibration);
  json.key("fit_left_out");
  if (answer.left_out) {
    write_factors(json, *answer.left_out);
  } else {
    json.null();
  }
  json.key("refusal");
  if (answer.refusal) {
    json.value(*answer.refusal);
  } else {
    json.null();
  }
  json.key("predictions").begin_array();
  for (const Prediction& prediction : answer.predictions) write_prediction(json, prediction);
  json.end_array().end_object();
  return json.take() + "\n";
}

}  // namespace kvist::planning

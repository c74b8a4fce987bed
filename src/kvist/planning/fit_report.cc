// A fit as tables and JSON.
#include <fmt/format.h>

#include <cmath>

#include "kvist/base/json_writer.h"
#include "kvist/planning/profile_fit.h"
#include "kvist/render/figures.h"
#include "kvist/render/table.h"

namespace kvist::planning {
namespace {

using render::Align;
using render::Table;

std::string number(double value) {
  return fmt::format("{:.4g}", value);
}

std::string_view name_of(FittedParameter::Determined determined) {
  switch (determined) {
    case FittedParameter::Determined::kWell:
      return "well";
    case FittedParameter::Determined::kRoughly:
      return "roughly";
    case FittedParameter::Determined::kNot:
      return "not";
  }
  return {};
}

std::string remark_on(const FittedParameter& fitted) {
  std::string remark;
  if (fitted.at_bound) remark = "at its bound";
  if (!fitted.tied_to.empty()) {
    remark += fmt::format("{}tied to {} ({:+.2f})", remark.empty() ? "" : "; ", fitted.tied_to, fitted.correlation);
  }
  return remark;
}

Table parameter_table(const FitResult& result) {
  Table table{.columns = {{"coefficient", Align::kLeft},
                          {"unit", Align::kLeft},
                          {"before", Align::kCenter},
                          {"after", Align::kCenter},
                          {"+-", Align::kCenter},
                          {"determined", Align::kLeft},
                          {"", Align::kLeft}},
              .rows = {}};
  for (const FittedParameter& p : result.parameters) {
    table.rows.push_back({p.parameter.name, p.parameter.unit, number(p.parameter.start), number(p.value),
                          std::isfinite(p.standard_error) ? number(p.standard_error) : std::string(render::kMissing),
                          std::string(name_of(p.determined())), remark_on(p)});
  }
  return table;
}

Table error_table(const FitResult& result) {
  Table table{.columns = {{"mean |deviation|", Align::kLeft},
                          {"tolerance", Align::kCenter},
                          {"fitted: before", Align::kCenter},
                          {"after", Align::kCenter},
                          {"held out: before", Align::kCenter},
                          {"after", Align::kCenter}},
              .rows = {}};
  for (const Metric metric : kMetrics) {
    const MetricError fitted = error_of(result, metric, false);
    const MetricError held_out = error_of(result, metric, true);
    if (fitted.levels + held_out.levels == 0) continue;
    const auto percent = [](const MetricError& error, double MetricError::* which) {
      return error.levels == 0 ? std::string(render::kMissing) : fmt::format("{:.1f} %", error.*which);
    };
    table.rows.push_back({std::string(analysis::figure_of(metric).plain_title),
                          fmt::format("{:.0f} %", 100 * tolerance_of(metric).value_or(0)),
                          percent(fitted, &MetricError::before_pct), percent(fitted, &MetricError::after_pct),
                          percent(held_out, &MetricError::before_pct), percent(held_out, &MetricError::after_pct)});
  }
  return table;
}

std::string deviation_text(const LevelComparison& level, Metric metric) {
  const std::optional<double>& measured = level.measured.figures[metric];
  if (!measured || *measured <= 0 || !level.after[metric]) return std::string(render::kMissing);
  return fmt::format("{:+.1f} %", 100 * (*level.after[metric] / *measured - 1));
}

Table level_table(const FitResult& result) {
  Table table{.columns = {{"users", Align::kCenter}, {"mode", Align::kLeft}, {"", Align::kLeft}}, .rows = {}};
  std::vector<Metric> shown;
  for (const Metric metric : kMetrics) {
    if (error_of(result, metric, false).levels + error_of(result, metric, true).levels == 0) continue;
    shown.push_back(metric);
    table.columns.push_back({std::string(analysis::figure_of(metric).plain_title), Align::kCenter});
  }
  for (const LevelComparison& level : result.levels) {
    auto& row = table.rows.emplace_back();
    row = {fmt::format("{}", level.measured.users), std::string(to_string(level.measured.mode)),
           level.held_out ? "held out" : "fitted"};
    for (const Metric metric : shown) row.push_back(deviation_text(level, metric));
  }
  return table;
}

void write_figures(JsonWriter& json, std::string_view key, const LevelFigures& figures) {
  json.key(key).begin_object();
  for (const Metric metric : kMetrics) {
    if (figures[metric]) json.field(analysis::figure_of(metric).key, *figures[metric]);
  }
  json.end_object();
}

}  // namespace

std::string fit_text(const FitProblem& problem, const FitResult& result, const std::string& source) {
  const spec::ProfileSpec& profile = *problem.sweep.deployment.workers.front().profile;
  std::string out = fmt::format(
      "{} on {} (tensor parallel {}), fitted to {}: {} levels fitted, {} held out, {} levels simulated in {} rounds.\n"
      "Objective (mean squared deviation, in tolerances): {} before, {} after\n\n",
      profile.file.empty() ? profile.engine : profile.file, profile.gpu, profile.tensor_parallel, source,
      problem.levels.fitted.size(), problem.levels.held_out.size(), result.levels_simulated, result.rounds,
      number(result.objective_before), number(result.objective_after));
  out += render::render_text_table(parameter_table(result)) + "\n";
  out += render::render_text_table(error_table(result)) + "\n";
  out += "Deviations after the fit, computed against measured\n" + render::render_text_table(level_table(result));
  return out;
}

std::string fit_json(const FitProblem& problem, const FitResult& result, const std::string& source) {
  const spec::ProfileSpec& profile = *problem.sweep.deployment.workers.front().profile;
  JsonWriter json(2);
  json.begin_object().field("source", source).field("engine", profile.engine).field("gpu", profile.gpu);
  json.field("objective_before", result.objective_before).field("objective_after", result.objective_after);
  json.field("rounds", result.rounds).field("levels_simulated", result.levels_simulated);
  json.key("coefficients").begin_array();
  for (const FittedParameter& p : result.parameters) {
    json.begin_object().field("name", p.parameter.name).field("unit", p.parameter.unit);
    json.field("before", p.parameter.start).field("after", p.value).field("standard_error", p.standard_error);
    json.field("determined", name_of(p.determined())).field("at_bound", p.at_bound);
    json.field("tied_to", p.tied_to).field("correlation", p.correlation).end_object();
  }
  json.end_array().key("errors").begin_array();
  for (const Metric metric : kMetrics) {
    for (const bool held_out : {false, true}) {
      const MetricError error = error_of(result, metric, held_out);
      if (error.levels == 0) continue;
      json.begin_object()
          .field("figure", analysis::figure_of(metric).key)
          .field("held_out", held_out)
          .field("levels", error.levels);
      json.field("before_pct", error.before_pct).field("after_pct", error.after_pct).end_object();
    }
  }
  json.end_array().key("levels").begin_array();
  for (const LevelComparison& level : result.levels) {
    json.begin_object().field("users", level.measured.users).field("mode", to_string(level.measured.mode));
    json.field("held_out", level.held_out);
    write_figures(json, "measured", level.measured.figures);
    write_figures(json, "before", level.before);
    write_figures(json, "after", level.after);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace kvist::planning

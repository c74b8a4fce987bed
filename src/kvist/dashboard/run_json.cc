#include "kvist/dashboard/run_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "kvist/analysis/client_verdict.h"
#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/analysis/run_changes.h"
#include "kvist/base/yaml.h"
#include "kvist/dashboard/figures.h"
#include "kvist/dashboard/json_fields.h"
#include "kvist/dashboard/run_library.h"
#include "kvist/spec/sweep.h"

namespace kvist::dashboard {
namespace {

using analysis::Estimate;
using analysis::Headline;
using analysis::HeadlineFigure;
using analysis::MeasuredLevel;
using analysis::RunAnalysis;

/// The dashboard's key of a figure; of one that is not shown live its own.
std::string_view key_of(std::size_t which) {
  const auto figure = static_cast<Headline>(which);
  const std::optional<Live> live = live_of(figure);
  return live ? kLiveKeys[index_of(*live)] : spec::key_of(figure);
}

/// Of a run without a schedule or without limits, some figures do not exist.
bool has_figure(const RunAnalysis& analysis, std::size_t which) {
  return !spec::missing_for(static_cast<Headline>(which), analysis.sweep());
}

std::string_view unit_of(std::string_view key, std::string_view printed) {
  return key.ends_with("_ms") ? std::string_view("ms") : printed;
}

void write_estimate(JsonWriter& json, const Estimate& estimate) {
  json.begin_object().key("value");
  const auto write = [&](const std::optional<double>& value) {
    if (value) {
      figure_value(json, *value);
    } else {
      json.null();
    }
  };
  write(estimate.value);
  json.key("low");
  write(estimate.interval ? std::optional(estimate.interval->low) : std::nullopt);
  json.key("high");
  write(estimate.interval ? std::optional(estimate.interval->high) : std::nullopt);
  json.end_object();
}

std::optional<double> time_scale_of(const spec::SweepSpec& sweep) {
  std::optional<double> scale;
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) {
    if (scale && *scale != worker.time_scale) return std::nullopt;
    scale = worker.time_scale;
  }
  return scale;
}

std::string workload_line(const spec::WorkloadSpec& workload) {
  if (!workload.trace.file.empty()) return workload.trace.file;
  const std::string turns = workload.turns_min == workload.turns_max
                                ? fmt::format("{}", workload.turns_min)
                                : fmt::format("{}-{}", workload.turns_min, workload.turns_max);
  return fmt::format("chats of {} turns, {} starters of {}-{} tokens", turns, workload.starters,
                     workload.starter_tokens_min, workload.starter_tokens_max);
}

void write_level(JsonWriter& json, const MeasuredLevel& level, const std::vector<results::LevelHead>& heads) {
  json.begin_object().field("concurrency", level.record.concurrency).field("repetitions", level.repetitions.size());
  json.field("excluded", level.analysis.excluded).key("figures").begin_object();
  for (std::size_t i = 0; i < analysis::kHeadlines; ++i) {
    json.key(key_of(i));
    write_estimate(json, analysis::estimate_of(level, analysis::headline_figures()[i]));
  }
  json.end_object();
  // Not every repetition has to be there: of an interrupted sweep some are missing.
  const auto each = [&](std::string_view key, auto value) {
    json.key(key).begin_array();
    for (const results::LevelHead& head : heads) {
      if (head.mode == level.record.mode && head.concurrency == level.record.concurrency) json.value(value(head));
    }
    json.end_array();
  };
  each("level_ids", [](const results::LevelHead& head) { return head.id; });
  each("level_repetitions", [](const results::LevelHead& head) { return head.repetition; });
  json.field("verdict", analysis::to_string(level.analysis.client.grade)).key("remarks").begin_array();
  for (const std::string& remark : level.record.remarks) json.value(remark);
  json.end_array().end_object();
}

std::string_view word_of(analysis::PairedVerdict verdict) {
  switch (verdict) {
    case analysis::PairedVerdict::kBetter:
      return "better";
    case analysis::PairedVerdict::kWorse:
      return "worse";
    case analysis::PairedVerdict::kEqual:
      return "equal";
    case analysis::PairedVerdict::kOpen:
    case analysis::PairedVerdict::kRefused:
      break;
  }
  return "open";
}

void write_compared(JsonWriter& json, const MeasuredLevel& before, const MeasuredLevel& after) {
  json.key("figures").begin_object();
  for (std::size_t i = 0; i < analysis::kHeadlines; ++i) {
    const analysis::FigureChange found = analysis::change_of(&before, &after, analysis::headline_figures()[i]);
    const auto& [old, now, change, verdict] = found;
    json.key(key_of(i)).begin_object();
    optional_field(json, "baseline", old.value);
    optional_field(json, "candidate", now.value);
    const bool has_ratio = change.value && *old.value != 0;
    optional_field(json, "ratio", has_ratio ? std::optional(*now.value / *old.value) : std::nullopt);
    optional_field(json, "change", change.value);
    optional_field(json, "low", change.interval ? std::optional(change.interval->low) : std::nullopt);
    optional_field(json, "high", change.interval ? std::optional(change.interval->high) : std::nullopt);
    json.field("verdict", word_of(verdict)).end_object();
  }
  json.end_object();
}

}  // namespace

std::optional<std::size_t> plot_of(std::string_view figure) {
  constexpr std::array<std::string_view, 6> kBegins = {
      "ttft_", "tpot_", "itl_", "latency_", "output_tokens_per_s", "hit_rate_pct"};
  for (std::size_t i = 0; i < kBegins.size(); ++i)
    if (figure.starts_with(kBegins[i])) return i;
  return std::nullopt;
}

void write_run_head(JsonWriter& json, const std::string& id, const std::string& file, const results::RunRecord& head,
                    const std::vector<results::LevelHead>& levels) {
  json.field("run", id).field("file", file).field("name", head.name).field("started_utc", head.started_utc);
  json.field("finished", !head.finished_utc.empty()).field("simulated", head.simulated);
  std::optional<double> scale;
  std::string workload;
  if (const auto node = YamlNode::parse(head.spec_yaml, "specification")) {
    if (const auto sweep = spec::read_sweep(*node, ".")) {
      scale = time_scale_of(*sweep);
      workload = workload_line(sweep->workload);
    }
  }
  optional_field(json, "time_scale", scale);
  json.key("modes").begin_array();
  std::vector<spec::Arm> modes;
  std::set<std::uint32_t> concurrencies;
  for (const results::LevelHead& level : levels) {
    concurrencies.insert(level.concurrency);
    if (std::ranges::find(modes, level.mode) != modes.end()) continue;
    modes.push_back(level.mode);
    json.value(spec::to_string(level.mode));
  }
  json.end_array().key("concurrencies").begin_array();
  for (const std::uint32_t one : concurrencies) json.value(one);
  json.end_array().field("levels", levels.size()).field("workload", workload);
}

void write_curves(JsonWriter& json, const RunAnalysis& analysis, const std::vector<results::LevelHead>& levels) {
  json.key("figures").begin_array();
  for (std::size_t i = 0; i < analysis::kHeadlines; ++i) {
    if (!has_figure(analysis, i)) continue;
    const HeadlineFigure& figure = analysis::headline_figures()[i];
    json.begin_object()
        .field("figure", key_of(i))
        .field("title", figure.title)
        .field("unit", unit_of(key_of(i), figure.unit));
    json.field("lower_is_better", !figure.larger_is_better);
    json.end_object();
  }
  json.end_array().key("modes").begin_array();
  for (const spec::Arm& mode : analysis.modes()) {
    json.begin_object()
        .field("mode", spec::to_string(mode))
        .field("title", analysis::long_name(mode))
        .key("levels")
        .begin_array();
    for (const std::uint32_t concurrency : analysis.concurrencies())
      if (const MeasuredLevel* const level = analysis.find(mode, concurrency)) write_level(json, *level, levels);
    json.end_array().end_object();
  }
  json.end_array().key("files").begin_array();
  for (const char* const name : {"report.md", "report.json", "report.html", "levels.csv", "plots.svg"})
    json.value(name);
  for (std::size_t i = 0; i < analysis::kHeadlines; ++i)
    if (plot_of(key_of(i))) json.value(std::string(key_of(i)) + ".svg");
  json.end_array();
}

Result<std::string> comparison_json(std::string_view baseline_id, const RunAnalysis& baseline,
                                    std::string_view candidate_id, const RunAnalysis& candidate) {
  KVIST_TRY(const analysis::RunPair pair, analysis::pair_runs({.name = baseline.run().name, .analysis = &baseline},
                                                              {.name = candidate.run().name, .analysis = &candidate}));
  JsonWriter json;
  json.begin_object().field("baseline", baseline_id).field("candidate", candidate_id).key("levels").begin_array();
  for (const analysis::ArmPair& arms : pair.arms) {
    for (const std::uint32_t concurrency : pair.concurrencies) {
      const MeasuredLevel* const before = baseline.find(arms.before, concurrency);
      const MeasuredLevel* const after = candidate.find(arms.after, concurrency);
      if (before == nullptr || after == nullptr) continue;
      json.begin_object().field("mode", spec::to_string(arms.after)).field("concurrency", concurrency);
      write_compared(json, *before, *after);
      json.end_object();
    }
  }
  json.end_array().end_object();
  return json.take();
}

}  // namespace kvist::dashboard

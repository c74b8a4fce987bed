#include "kvist/base/json_writer.h"
#include "kvist/planning/capacity_report.h"

namespace kvist::planning {
namespace {

void write_value(JsonWriter& json, std::string_view key, std::optional<double> value) {
  json.key(key);
  value ? json.value(*value) : json.null();
}

void write_objective(JsonWriter& json, const std::optional<Objective>& objective) {
  json.key("limited_by");
  if (!objective) {
    json.null();
    return;
  }
  json.begin_object()
      .field("figure", analysis::figure_of(objective->metric).key)
      .field("limit", objective->limit)
      .end_object();
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kBreaks:
      return "breaks";
    case Verdict::kUndecided:
      return "undecided";
  }
  return {};
}

void write_level(JsonWriter& json, const Judgement& level) {
  json.begin_object().field("users", level.users).field("seeds", level.samples.size());
  json.field("verdict", name_of(level.verdict)).field("holds_on_average", level.holds_on_average());
  json.key("figures").begin_object();
  for (const Metric metric : kMetrics) write_value(json, analysis::figure_of(metric).key, level.mean(metric));
  json.end_object().key("limits").begin_object();
  for (const ObjectiveEstimate& estimate : level.objectives) {
    json.key(analysis::figure_of(estimate.objective.metric).key)
        .begin_object()
        .field("limit", estimate.objective.limit);
    using Bound = double MeanInterval::*;
    const auto bound = [&](std::string_view key, Bound which) {
      write_value(json, key, estimate.figure ? std::optional(*estimate.figure.*which) : std::nullopt);
    };
    bound("mean", &MeanInterval::mean);
    bound("low", &MeanInterval::low);
    bound("high", &MeanInterval::high);
    json.field("verdict", name_of(estimate.verdict)).end_object();
  }
  json.end_object().end_object();
}

void write_capacity(JsonWriter& json, const Capacity& capacity, bool with_levels) {
  json.begin_object().field("mode", to_string(capacity.mode)).field("users", capacity.users);
  json.field("surely", capacity.surely).field("at_most", capacity.at_most).field("at_limit", capacity.at_limit);
  json.key("holds_again").begin_array();
  for (const std::uint32_t users : capacity.holds_again) json.value(users);
  json.end_array();
  write_objective(json, capacity.limited_by);
  if (with_levels) {
    json.key("levels").begin_array();
    for (const Judgement& level : capacity.levels) write_level(json, level);
    json.end_array();
  }
  json.end_object();
}

void write_needed(JsonWriter& json, const WorkersNeeded& needed) {
  json.begin_object().field("mode", to_string(needed.mode)).field("users", needed.users);
  json.key("workers");
  needed.workers > 0 ? json.value(needed.workers) : json.null();
  json.field("surely_needs", needed.surely_needs).key("surely_enough");
  needed.surely_enough > 0 ? json.value(needed.surely_enough) : json.null();
  json.key("enough_below").begin_array();
  for (const std::uint32_t workers : needed.enough_below) json.value(workers);
  json.end_array();
  write_objective(json, needed.limited_by);
  json.end_object();
}

void write_knobs(JsonWriter& json, const KnobTable& knobs) {
  json.begin_object().field("mode", to_string(knobs.base.mode)).field("users", knobs.base.users);
  json.field("gpus", knobs.gpus).key("changes").begin_array();
  for (const KnobGain& gain : knobs.gains) {
    json.begin_object().field("knob", gain.knob).field("from", gain.from).field("to", gain.to).field("gpus", gain.gpus);
    if (gain.capacity) {
      json.field("gain", gain.users).field("gain_low", gain.users_low).field("gain_high", gain.users_high);
      json.field("gain_per_gpu", gain.users_per_gpu).key("capacity");
      write_capacity(json, *gain.capacity, false);
    } else {
      json.field("impossible", gain.impossible);
    }
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

std::string plan_json(const CapacityPlan& plan) {
  JsonWriter json(2);
  json.begin_object().field("name", plan.sweep.name).field("simulated", true);
  json.field("slo", to_string(plan.slo)).field("confidence", plan.confidence);
  json.field("gpus", gpus_of(plan.sweep.deployment)).field("batch_slots", batch_slots_of(plan.sweep.deployment));
  json.key("capacities").begin_array();
  for (const Capacity& capacity : plan.capacities) write_capacity(json, capacity, true);
  json.end_array().key("workers_needed").begin_array();
  for (const WorkersNeeded& needed : plan.needed) write_needed(json, needed);
  json.end_array().key("knobs").begin_array();
  for (const KnobTable& knobs : plan.knobs) write_knobs(json, knobs);
  json.end_array().end_object();
  return json.take();
}

}  // namespace kvist::planning

#include "kvist/base/json_writer.h"
#include "kvist/planning/capacity_report.h"
#include "kvist/planning/capacity_tables.h"

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
  json.begin_object().field("figure", spec::key_of(objective->figure)).field("limit", objective->limit).end_object();
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kBreaks:
      return "breaks";
    case Verdict::kUndecided:
      return "undecided";
    case Verdict::kUnknown:
      return "unknown";
  }
  return {};
}

void write_level(JsonWriter& json, const Judgement& level) {
  json.begin_object().field("users", level.users).field("seeds", level.samples.size());
  json.field("verdict", name_of(level.verdict)).field("holds_on_average", level.holds_on_average());
  json.key("figures").begin_object();
  for (std::size_t i = 0; i < spec::kFigures; ++i) {
    write_value(json, spec::kFigureKeys[i], level.mean(static_cast<Headline>(i)));
  }
  json.end_object().key("limits").begin_object();
  for (const ObjectiveEstimate& estimate : level.objectives) {
    json.key(spec::key_of(estimate.objective.figure)).begin_object();
    json.field("limit", estimate.objective.limit).field("is_least", estimate.objective.is_least());
    using Bound = double MeanInterval::*;
    const auto bound = [&](std::string_view key, Bound which) {
      write_value(json, key, estimate.figure ? std::optional(*estimate.figure.*which) : std::nullopt);
    };
    bound("mean", &MeanInterval::mean);
    bound("low", &MeanInterval::low);
    bound("high", &MeanInterval::high);
    if (estimate.blocks) json.field("blocks", *estimate.blocks);
    json.field("verdict", name_of(estimate.verdict)).end_object();
  }
  json.end_object().end_object();
}

/// Only where the search ended without an answer.
void write_unknown(JsonWriter& json, std::string_view number, const std::optional<UnknownLevel>& unknown) {
  if (!unknown) return;
  json.key("unknown").begin_object().field(number, unknown->at).field("figure", spec::key_of(unknown->figure));
  json.field("seeds_without", unknown->seeds_without).field("seeds", unknown->seeds).end_object();
}

void write_capacity(JsonWriter& json, const Capacity& capacity, bool with_levels) {
  const auto if_known = [&](std::string_view key, std::uint32_t users) {
    json.key(key);
    capacity.unknown ? json.null() : json.value(users);
  };
  json.begin_object().field("mode", to_string(capacity.mode));
  if_known("users", capacity.users);
  // Where means alone decided, these say only which levels were looked at.
  const auto if_bound = [&](std::string_view key, std::uint32_t users) {
    json.key(key);
    capacity.unknown || capacity.lacks_interval ? json.null() : json.value(users);
  };
  if_bound("surely", capacity.surely);
  if_bound("at_most", capacity.at_most);
  json.field("at_limit", capacity.at_limit).field("too_few", capacity.too_few);
  write_unknown(json, "users", capacity.unknown);
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
  write_unknown(json, "workers", needed.unknown);
  json.key("surely_needs");
  needed.lacks_interval ? json.null() : json.value(needed.surely_needs);
  json.key("surely_enough");
  needed.surely_enough > 0 && !needed.lacks_interval ? json.value(needed.surely_enough) : json.null();
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
      const bool no_interval = lacks_interval(knobs, gain);
      json.field("gain", gain.users);
      write_value(json, "gain_low", no_interval ? std::nullopt : std::optional(gain.users_low));
      write_value(json, "gain_high", no_interval ? std::nullopt : std::optional(gain.users_high));
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
  json.begin_object().field("name", plan.sweep.name).field("simulated", !plan.is_measured);
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

#include "kvist/report/reference_json.h"

#include <cmath>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/level_figures.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/analysis/named_figures.h"
#include "kvist/base/json_writer.h"
#include "kvist/report/client_json.h"
#include "kvist/report/comparison_text.h"
#include "kvist/report/load_agents.h"
#include "kvist/report/model_facts.h"

namespace kvist::report {
namespace {

constexpr int kMsDecimals = 3;
constexpr int kPctDecimals = 3;
constexpr int kRateDecimals = 6;

/// Rounded to the digits that a measurement has; null if there is no value.
void number(JsonWriter& json, std::string_view key, std::optional<double> value, int decimals) {
  json.key(key);
  if (!value) {
    json.null();
    return;
  }
  const double scale = std::pow(10.0, decimals);
  const double rounded = std::round(*value * scale) / scale;
  json.value(std::isfinite(rounded) ? rounded : *value);
}

template <class T>
void optional_field(JsonWriter& json, std::string_view key, const std::optional<T>& value) {
  json.key(key);
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}

void published_keys(JsonWriter& json, const analysis::LevelAnalysis& a) {
  for (const analysis::NamedFigure& named : analysis::published_figures())
    number(json, named.key, named.figure(a), named.decimals);
}

void distribution(JsonWriter& json, std::string_view key, const Distribution& d) {
  json.key(key).begin_object().field("count", d.count);
  const std::pair<std::string_view, double Distribution::*> figures[] = {
      {"mean", &Distribution::mean}, {"standard_deviation", &Distribution::standard_deviation},
      {"min", &Distribution::min},   {"p50", &Distribution::p50},
      {"p90", &Distribution::p90},   {"p95", &Distribution::p95},
      {"p99", &Distribution::p99},   {"max", &Distribution::max}};
  for (const auto& [name, figure] : figures) number(json, name, render::figure_of(d, figure), kMsDecimals);
  json.end_object();
}

void exact_figures(JsonWriter& json, const analysis::ExactFigures& exact, bool has_schedule) {
  json.key("exact").begin_object();
  distribution(json, "ttft_ms", exact.ttft_ms);
  distribution(json, "tpot_ms", exact.tpot_ms);
  distribution(json, "itl_ms", exact.itl_ms);
  distribution(json, "itl_request_mean_ms", exact.itl_request_mean_ms);
  distribution(json, "latency_ms", exact.latency_ms);
  if (has_schedule) {
    distribution(json, "ttft_from_schedule_ms", exact.ttft_from_schedule_ms);
    distribution(json, "latency_from_schedule_ms", exact.latency_from_schedule_ms);
  }
  number(json, "window_s", exact.window_s, kMsDecimals);
  number(json, "output_tokens_per_s", exact.output_tokens_per_s, kRateDecimals);
  number(json, "turns_per_s", exact.turns_per_s, kRateDecimals);
  number(json, "conversation_starts_per_s", exact.conversation_starts_per_s, kRateDecimals);
  json.end_object();
}

/// Exact figures with their intervals, in the units of their keys.
void headline_figures(JsonWriter& json, const analysis::MeasuredLevel& level) {
  json.key("headline").begin_object();
  for (const analysis::HeadlineFigure& figure : analysis::headline_figures()) {
    const analysis::Estimate estimate = analysis::estimate_of(level, figure);
    json.key(figure.key).begin_object();
    number(json, "value", estimate.value, kRateDecimals);
    number(json, "low", estimate.interval ? std::optional(estimate.interval->low) : std::nullopt, kRateDecimals);
    number(json, "high", estimate.interval ? std::optional(estimate.interval->high) : std::nullopt, kRateDecimals);
    json.end_object();
  }
  json.end_object();
}

void snapshot_figures(JsonWriter& json, const analysis::MeasuredLevel& level) {
  const analysis::PublishedFigures& p = level.analysis.published;
  json.key("snapshots").begin_object().field("count", level.record.snapshots.size());
  json.field("with_ttft", p.ttft_p50_ms.snapshots);
  json.field("with_tpot", p.tpot_p50_ms.snapshots);
  json.field("with_latency", p.latency_p50_ms.snapshots);
  number(json, "itl_p50_ms", p.itl_p50_ms.mean, kMsDecimals);
  number(json, "itl_p95_ms", p.itl_p95_ms.mean, kMsDecimals);
  number(json, "error_pct", p.error_pct.mean, kPctDecimals);
  json.end_object();
}

void turn_counts(JsonWriter& json, std::string_view key, const analysis::TurnCounts& counts) {
  json.key(key).begin_object();
  json.field("succeeded", counts.succeeded).field("failed", counts.failed).field("abandoned", counts.abandoned);
  json.end_object();
}

void workers(JsonWriter& json, const analysis::MeasuredLevel& level) {
  json.key("workers").begin_array();
  for (const results::WorkerLevelRecord& w : level.record.workers) {
    json.begin_object().field("worker", w.worker);
    std::optional<std::size_t> turns;
    for (const analysis::WorkerShare& share : level.analysis.worker_shares) {
      if (share.worker == w.worker) turns = share.turns;
    }
    optional_field(json, "turns", turns);
    json.field("prefix_query_tokens", w.prefix_query_tokens).field("prefix_hit_tokens", w.prefix_hit_tokens);
    json.field("prompt_tokens", w.prompt_tokens).field("prefilled_tokens", w.prefilled_tokens);
    json.field("generated_tokens", w.generated_tokens);
    optional_field(json, "evictions", w.evictions);
    json.field("preemptions", w.preemptions).field("restarts", w.restarts);
    if (w.steps) {
      json.key("steps").begin_object().field("prefill", w.steps->prefill).field("mixed", w.steps->mixed);
      json.field("decode", w.steps->decode).end_object();
    }
    optional_field(json, "acceptance_rate", w.acceptance_rate);
    json.field("kv_usage_max", w.kv_usage_max).field("running_mean", w.running_mean);
    json.field("waiting_max", w.waiting_max).end_object();
  }
  json.end_array();
}

void predicted_cache(JsonWriter& json, const analysis::PredictedCache& predicted) {
  json.key("predicted_cache").begin_object().field("turns", predicted.turns);
  const bool any = predicted.turns > 0;
  optional_field(json, "predicted_tokens", any ? std::optional(predicted.predicted_tokens) : std::nullopt);
  optional_field(json, "cached_tokens", any ? std::optional(predicted.cached_tokens) : std::nullopt);
  number(json, "mean_absolute_error_tokens", predicted.mean_absolute_error_tokens, kMsDecimals);
  json.end_object();
}

void spread(JsonWriter& json, std::string_view key, const analysis::MeasuredLevel& level, analysis::LevelFigure figure,
            int decimals) {
  json.key(key);
  const std::optional<analysis::Spread> spread = level.spread(figure);
  if (!spread) {
    json.null();
    return;
  }
  json.begin_object().field("count", spread->count);
  number(json, "mean", spread->mean, decimals);
  number(json, "standard_deviation", spread->standard_deviation, decimals);
  number(json, "min", spread->min, decimals);
  number(json, "max", spread->max, decimals);
  json.end_object();
}

/// Only where a level was measured more than once.
void repetitions(JsonWriter& json, const analysis::MeasuredLevel& level) {
  if (level.repetitions.size() < 2) return;
  json.key("repetitions").begin_object();
  json.field("count", level.repetitions.size()).field("counted", level.counted()).key("seeds").begin_array();
  for (const analysis::Measurement& repetition : level.repetitions) json.value(repetition.record.seed);
  json.end_array();
  for (const analysis::NamedFigure& named : analysis::published_figures()) {
    spread(json, named.key, level, named.figure, named.decimals);
  }
  json.end_object();
}

void slow_turns(JsonWriter& json, const analysis::MeasuredLevel& level) {
  const analysis::Measurement& shown = analysis::timeline_shown(level);
  if (shown.timelines.empty()) return;
  json.key("slow_turns").begin_object().field("repetition", shown.record.repetition);
  number(json, "ttft_p95_ms", shown.timelines.ttft_p95_ms, kMsDecimals);
  json.key("causes").begin_object();
  for (std::size_t cause = 0; cause < analysis::kSlowCauses; ++cause) {
    if (shown.timelines.causes[cause] > 0) {
      json.field(to_string(static_cast<analysis::SlowCause>(cause)), shown.timelines.causes[cause]);
    }
  }
  json.end_object().key("slowest").begin_array();
  for (const analysis::SlowTurn& turn : shown.timelines.slowest) {
    json.begin_object();
    number(json, "second", turn.second, kMsDecimals);
    number(json, "ttft_ms", turn.ttft_ms, kMsDecimals);
    json.field("worker", turn.worker).field("conversation", turn.conversation).field("turn", turn.turn);
    json.field("prompt_tokens", turn.prompt_tokens).field("cached_tokens", turn.cached_tokens);
    if (turn.reading) {
      json.field("running", turn.reading->running).field("waiting", turn.reading->waiting);
      json.field("prefill_backlog_tokens", turn.reading->prefill_backlog_tokens);
      number(json, "kv_used", turn.reading->kv_used, kMsDecimals);
      number(json, "step_ms", static_cast<double>(turn.reading->step_ms), kMsDecimals);
    }
    json.field("cause", to_string(turn.cause)).end_object();
  }
  json.end_array().end_object();
}

/// Only where the bounds are known.
void cache_bounds(JsonWriter& json, const std::optional<analysis::CacheBounds>& bounds) {
  if (!bounds) return;
  const auto if_known = [&](std::uint64_t tokens) {
    return bounds->sizes_known ? std::optional(tokens) : std::nullopt;
  };
  json.key("reusable_tokens").begin_object();
  json.field("block_size", bounds->block_size).field("prompt_tokens", bounds->prompt_tokens);
  json.field("endless", bounds->endless);
  optional_field(json, "fleet", if_known(bounds->fleet));
  json.field("routed_endless", bounds->routed_endless);
  optional_field(json, "routed", if_known(bounds->routed));
  json.end_object();
}

void own_keys(JsonWriter& json, const analysis::RunAnalysis& analysis, const analysis::MeasuredLevel& level) {
  // A simulated client uses no time and no CPU: it has no measurements of its own.
  const bool measured_client = !analysis.run().simulated;
  const analysis::LevelAnalysis& a = level.analysis;
  json.key("kvist").begin_object();
  json.field("started", level.record.started_utc).field("seed", level.record.seed).field("excluded", a.excluded);
  number(json, "conversation_starts_per_s", analysis::figure::conversation_starts_per_s(a), kRateDecimals);
  number(json, "turn_mean_hit_rate_pct", a.hit_rate.turn_mean_pct, kPctDecimals);
  number(json, "workers_hit_rate_pct", a.hit_rate.workers_pct, kPctDecimals);
  number(json, "hit_rate_difference_points", a.hit_rate.difference_points, kPctDecimals);
  json.field("client_prompt_tokens", a.hit_rate.client_prompt_tokens);
  json.field("client_cached_tokens", a.hit_rate.client_cached_tokens);
  cache_bounds(json, a.cache_bounds);
  optional_field(json, "prefilled_tokens", a.prefilled_tokens);
  number(json, "imbalance", a.imbalance, kPctDecimals);
  turn_counts(json, "turns", a.all_turns);
  turn_counts(json, "window_turns", a.window_turns);
  headline_figures(json, level);
  snapshot_figures(json, level);
  exact_figures(json, a.exact, spec::has_schedule(analysis.sweep().workload));
  predicted_cache(json, a.predicted);
  workers(json, level);
  if (measured_client) write_client(json, level.record.client, level.analysis.client);
  write_agents(json, level.record.agents, a.exact);
  repetitions(json, level);
  slow_turns(json, level);
  json.key("remarks").begin_array();
  for (const std::string& remark : level.record.remarks) json.value(remark);
  json.end_array().end_object();
}

void level_keys(JsonWriter& json, const analysis::RunAnalysis& analysis, const analysis::MeasuredLevel& level,
                JsonDetail detail) {
  published_keys(json, level.analysis);
  if (detail == JsonDetail::kFull) own_keys(json, analysis, level);
}

void levels(JsonWriter& json, const analysis::RunAnalysis& analysis, JsonDetail detail) {
  const bool flat = analysis.modes().size() == 1;
  json.key("levels").begin_array();
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    json.begin_object().field("concurrency", concurrency);
    for (const spec::Arm& mode : analysis.modes()) {
      const analysis::MeasuredLevel* level = analysis.find(mode, concurrency);
      if (flat) {
        if (level != nullptr) level_keys(json, analysis, *level, detail);
        continue;
      }
      json.key(analysis::json_key(mode));
      if (level == nullptr) {
        json.null();
        continue;
      }
      json.begin_object();
      level_keys(json, analysis, *level, detail);
      json.end_object();
    }
    json.end_object();
  }
  json.end_array();
}

/// Only in a simulated run: what its times come from.
void models(JsonWriter& json, const analysis::RunAnalysis& analysis) {
  if (!analysis.run().simulated) return;
  json.key("models").begin_array();
  for (const ModelFacts& facts : model_facts(analysis.sweep())) {
    json.begin_object().field("title", facts.profile.title).key("workers").begin_array();
    for (const std::string& worker : facts.workers) json.value(worker);
    json.end_array().key("extrapolations").begin_array();
    for (const std::string& reason : facts.profile.extrapolation.reasons) json.value(reason);
    json.end_array().key("coefficients").begin_array();
    for (const perfmodel::Coefficient& c : facts.profile.coefficients) {
      json.begin_object().field("name", c.name).field("value", c.value).field("unit", c.unit);
      json.field("origin", perfmodel::to_string(c.origin.kind)).field("origin_text", c.origin.text).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

/// Only where there are two modes and two repetitions.
void comparison(JsonWriter& json, const analysis::RunAnalysis& analysis) {
  if (!analysis::is_comparable(analysis)) return;
  const Result<analysis::RunComparison> compared = analysis::compare_modes(analysis);
  if (!compared) return;
  json.key("comparison");
  write_comparison(json, *compared);
}

void run_keys(JsonWriter& json, const analysis::RunAnalysis& analysis) {
  const results::RunRecord& run = analysis.run();
  const spec::MethodSpec& method = analysis.sweep().method;
  json.key("kvist").begin_object();
  json.field("format", 2).field("name", run.name).field("version", run.kvist_version);
  json.field("started", run.started_utc).field("finished", run.finished_utc).field("simulated", run.simulated);
  optional_field(json, "time_scale", analysis.time_scale());
  json.key("modes").begin_array();
  for (const spec::Arm& mode : analysis.modes()) json.value(spec::to_string(mode));
  json.end_array();
  json.key("method").begin_object();
  json.field("warmup_s", to_seconds(method.warmup)).field("snapshots", method.snapshots);
  json.field("snapshot_interval_s", to_seconds(method.snapshot_interval));
  json.field("summary_window_s", to_seconds(method.window));
  json.field("drain_timeout_s", to_seconds(method.drain_timeout));
  json.field("repetitions", method.repetitions);
  json.field("between_levels", method.between_levels == spec::BetweenLevels::kContinue ? "continue" : "drain");
  json.field("exclude_error_pct_above", method.max_error_pct).end_object();
  json.field("workload_seed", analysis.sweep().workload.seed).key("machine").begin_object();
  for (const auto& [key, value] : run.machine) json.field(key, value);
  json.end_object();
  models(json, analysis);
  comparison(json, analysis);
  json.end_object();
}

}  // namespace

std::string reference_json(const analysis::RunAnalysis& analysis, JsonDetail detail) {
  const results::RunRecord& run = analysis.run();
  JsonWriter json(2);
  json.begin_object().field("generated", run.finished_utc.empty() ? run.started_utc : run.finished_utc);
  if (analysis.modes().size() == 1) {
    json.field("mode", spec::to_string(analysis.modes().front()));
  } else {
    json.field("metric", "loadgen_ttft_all_seconds");
  }
  const spec::WorkloadSpec& workload = analysis.sweep().workload;
  // Open arrivals have no target rate beside the levels, which are starts per minute.
  const bool has_rate = !workload.arrivals.is_open() && workload.target_rps > 0;
  optional_field(json, "target_rps", has_rate ? std::optional(workload.target_rps) : std::nullopt);
  levels(json, analysis, detail);
  if (detail == JsonDetail::kFull) run_keys(json, analysis);
  json.end_object();
  return json.take() + "\n";
}

}  // namespace kvist::report

#include "kvist/report/load_exports.h"
#include "kvist/report/load_samples.h"

namespace kvist::report {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

/// The statistics of one measure; null without samples. inference-perf has seconds everywhere.
void statistics(JsonWriter& json, const SampleList& samples) {
  json.field("mean", samples.mean()).field("min", samples.min()).field("max", samples.max());
  json.field("median", samples.quantile(0.5)).field("p90", samples.quantile(0.90));
  json.field("p95", samples.quantile(0.95)).field("p99", samples.quantile(0.99));
}

void measure(JsonWriter& json, std::string_view key, const SampleList& samples) {
  json.key(key);
  if (samples.empty()) {
    json.null();
    return;
  }
  json.begin_object();
  statistics(json, samples);
  json.end_object();
}

std::optional<double> delay_s(const TurnSample& turn) {
  return to_seconds(turn.sent - turn.intended);
}
std::optional<double> normalized_s(const TurnSample& turn) {
  return turn.output_tokens() > 0 ? std::optional(turn.latency_ms() * 1e-3 / turn.output_tokens()) : std::nullopt;
}

void latency(JsonWriter& json, const std::vector<const TurnSample*>& turns) {
  json.key("latency").begin_object();
  measure(json, "request_latency", samples_of(turns, latency_ms, 1e-3));
  measure(json, "normalized_time_per_output_token", samples_of(turns, normalized_s));
  measure(json, "time_per_output_token", samples_of(turns, tpot_ms, 1e-3));
  measure(json, "time_to_first_token", samples_of(turns, ttft_ms, 1e-3));
  measure(json, "inter_token_latency", gaps_of(turns, 1e-3));
  json.end_object();
}

void tokens(JsonWriter& json, const LoadFigures& figures, const std::vector<const TurnSample*>& turns) {
  const LoadTotals& t = figures.totals;
  const SampleList prompts = samples_of(turns, prompt_tokens);
  json.key("prompt_tokens");
  if (t.without_usage > 0 || prompts.empty()) {
    json.null();
  } else {
    json.begin_object().field("total", static_cast<double>(t.prompt_tokens));
    const auto known = [&](std::uint64_t tokens) {
      return t.knows_cached() ? std::optional(static_cast<double>(tokens)) : std::nullopt;
    };
    number_field(json, "cached", known(t.cached_tokens));
    number_field(json, "uncached", known(t.prompt_tokens - std::min(t.prompt_tokens, t.cached_tokens)));
    statistics(json, prompts);
    json.end_object();
  }
  const SampleList outputs = samples_of(turns, output_tokens);
  measure(json, "output_len", outputs);
  json.key("output_tokens").begin_object().field("total", static_cast<double>(t.output_tokens));
  if (!outputs.empty()) statistics(json, outputs);
  json.end_object();
}

void throughput(JsonWriter& json, const LoadFigures& figures) {
  json.key("throughput").begin_object();
  number_field(json, "input_tokens_per_sec", figures.prompt_tokens_per_s);
  number_field(json, "output_tokens_per_sec", figures.output_tokens_per_s);
  const bool both = figures.prompt_tokens_per_s && figures.output_tokens_per_s;
  number_field(json, "total_tokens_per_sec",
               both ? std::optional(*figures.prompt_tokens_per_s + *figures.output_tokens_per_s) : std::nullopt);
  number_field(json, "requests_per_sec", figures.completed_per_s);
  json.end_object();
}

void failures(JsonWriter& json, const LoadRun& run, const LoadFigures& figures) {
  std::vector<double> latencies;
  for (const TurnSample* turn : turns_with(run.level, TurnOutcome::kFailed)) {
    if (turn->sent != TimePoint{}) latencies.push_back(turn->latency_ms() * 1e-3);
  }
  json.key("failures").begin_object().field("count", figures.totals.failed);
  measure(json, "request_latency", SampleList(std::move(latencies)));
  json.key("prompt_tokens").null().key("by_label").begin_object().end_object().end_object();
}

}  // namespace

std::string inference_perf_json(const LoadRun& run, const LoadFigures& figures) {
  const std::vector<const TurnSample*> turns = measured_turns(run.level);
  JsonWriter json(2);
  json.begin_object().field("benchmark_time_seconds", figures.window_s);
  json.key("load_summary").begin_object().field("count", figures.totals.sent);
  measure(json, "schedule_delay", samples_of(turns, delay_s));
  if (run.rate_per_s) json.field("requested_rate", *run.rate_per_s);
  if (figures.arrivals) number_field(json, "achieved_rate", figures.arrivals->sent_per_s);
  if (run.concurrency) json.field("concurrency", *run.concurrency);
  json.end_object().key("successes").begin_object().field("count", figures.totals.succeeded);
  latency(json, turns);
  throughput(json, figures);
  tokens(json, figures, turns);
  json.end_object();
  failures(json, run, figures);
  json.end_object();
  return json.take() + "\n";
}

}  // namespace kvist::report

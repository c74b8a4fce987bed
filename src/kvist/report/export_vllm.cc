#include <fmt/format.h>

#include <concepts>
#include <type_traits>

#include "kvist/report/load_exports.h"
#include "kvist/report/load_samples.h"

namespace kvist::report {
namespace {

using workload::TurnSample;

void statistics(JsonWriter& json, std::string_view name, const SampleList& samples) {
  const auto field = [&](std::string_view prefix, std::optional<double> value) {
    number_field(json, fmt::format("{}_{}_ms", prefix, name), samples.empty() ? std::nullopt : value);
  };
  const auto quantile = [&](double q) { return samples.empty() ? 0 : samples.quantile(q); };
  field("mean", samples.mean());
  field("median", quantile(0.5));
  field("std", samples.standard_deviation());
  field("p50", quantile(0.5));
  field("p95", quantile(0.95));
  field("p99", quantile(0.99));
}

/// One number per measured request.
template <class Value>
void list(JsonWriter& json, std::string_view key, const std::vector<const TurnSample*>& turns, const Value& value) {
  json.key(key).begin_array();
  for (const TurnSample* turn : turns) {
    if constexpr (std::same_as<std::invoke_result_t<Value, const TurnSample&>, std::optional<double>>) {
      number(json, value(*turn));
    } else {
      json.value(value(*turn));
    }
  }
  json.end_array();
}

/// "20261122-211130" of "2026-11-22T21:11:30Z".
std::string date_of(const std::string& utc) {
  std::string date;
  for (const char c : utc) {
    if (c == 'T') date += '-';
    if (c >= '0' && c <= '9') date += c;
  }
  return date.substr(0, 15);
}

/// Its gaps are gamma-distributed with this shape: infinite if they are equal. Bursts at one instant, a ramp and a
/// trace have no such gaps; a closed loop has vLLM's default.
void burstiness(JsonWriter& json, const LoadRun& run) {
  const spec::ArrivalSpec& arrivals = run.workload.arrivals;
  json.key("burstiness");
  const bool gamma = arrivals.profile.empty() && run.workload.trace.file.empty();
  if (gamma && arrivals.kind == spec::ArrivalKind::kBursty) {
    json.value(1 / (arrivals.variation * arrivals.variation));
  } else if (gamma && (arrivals.kind == spec::ArrivalKind::kPoisson || run.concurrency)) {
    json.value(1.0);
  } else if (gamma && arrivals.kind == spec::ArrivalKind::kConstant) {
    json.value("inf");
  } else {
    json.null();
  }
}

void load_keys(JsonWriter& json, const LoadRun& run, const LoadFigures& figures) {
  const std::string_view endpoint = run.is_chat ? "openai-chat" : "openai";
  json.field("date", date_of(run.started_utc)).field("endpoint_type", endpoint).field("backend", endpoint);
  json.key("label").null().field("model_id", run.model).key("tokenizer_id").null();
  json.field("num_prompts", figures.totals.succeeded + figures.totals.failed);
  if (run.rate_per_s) {
    json.field("request_rate", *run.rate_per_s);
  } else if (run.concurrency) {
    json.field("request_rate", "inf");
  } else {  // a trace at its own instants
    json.key("request_rate").null();
  }
  burstiness(json, run);
  json.key("max_concurrency");
  if (run.concurrency) {
    json.value(*run.concurrency);
  } else {
    json.null();
  }
}

void totals_keys(JsonWriter& json, const LoadFigures& figures) {
  const LoadTotals& t = figures.totals;
  json.field("duration", figures.window_s).field("completed", t.succeeded).field("failed", t.failed);
  number_field(json, "total_input_tokens",
               t.without_usage == 0 ? std::optional(static_cast<double>(t.prompt_tokens)) : std::nullopt);
  json.field("total_output_tokens", t.output_tokens);
  number_field(json, "request_throughput", figures.completed_per_s);
  json.key("request_goodput").null();
  number_field(json, "output_throughput", figures.output_tokens_per_s);
  const bool both = figures.output_tokens_per_s && figures.prompt_tokens_per_s;
  number_field(json, "total_token_throughput",
               both ? std::optional(*figures.output_tokens_per_s + *figures.prompt_tokens_per_s) : std::nullopt);
}

void details(JsonWriter& json, const LoadRun& run, const std::vector<const TurnSample*>& turns) {
  list(json, "input_lens", turns, [](const TurnSample& t) { return prompt_tokens(t); });
  list(json, "output_lens", turns, [](const TurnSample& t) { return t.output_tokens(); });
  list(json, "ttfts", turns,
       [](const TurnSample& t) { return ttft_ms(t).transform([](double ms) { return ms * 1e-3; }); });
  json.key("itls").begin_array();
  for (const TurnSample* turn : turns) {
    json.begin_array();
    for (const float gap : turn->gaps_ms) json.value(static_cast<double>(gap) * 1e-3);
    json.end_array();
  }
  json.end_array();
  list(json, "latencies", turns, [](const TurnSample& t) { return t.latency_ms() * 1e-3; });
  list(json, "start_times", turns, [&](const TurnSample& t) { return to_seconds(t.sent - run.level.started); });
  list(json, "queue_times", turns, [](const TurnSample& t) { return to_seconds(t.sent - t.intended); });
  list(json, "generated_texts", turns, [](const TurnSample&) { return std::optional<double>(); });
  list(json, "errors", turns, [](const TurnSample& t) { return t.error; });
}

}  // namespace

std::string vllm_json(const LoadRun& run, const LoadFigures& figures) {
  const std::vector<const TurnSample*> turns = measured_turns(run.level);
  JsonWriter json;
  json.begin_object();
  load_keys(json, run, figures);
  totals_keys(json, figures);
  details(json, run, turns);
  statistics(json, "ttft", samples_of(turns, ttft_ms));
  statistics(json, "tpot", samples_of(turns, tpot_ms));
  statistics(json, "itl", gaps_of(turns));
  statistics(json, "e2el", samples_of(turns, latency_ms));
  json.end_object();
  return json.take() + "\n";
}

std::vector<std::string> exported_names() {
  return {"vllm.json", "profile_export_aiperf.json", "profile_export.jsonl", "benchmarks.json",
          "summary_lifecycle_metrics.json"};
}

std::vector<std::pair<std::string, std::string>> exported_files(ExportFormat format, const LoadRun& run,
                                                                const LoadFigures& figures) {
  switch (format) {
    case ExportFormat::kVllm:
      return {{"vllm.json", vllm_json(run, figures)}};
    case ExportFormat::kAiperf:
      return {{"profile_export_aiperf.json", aiperf_json(run, figures)}, {"profile_export.jsonl", aiperf_records(run)}};
    case ExportFormat::kGuidellm:
      return {{"benchmarks.json", guidellm_json(run, figures)}};
    case ExportFormat::kInferencePerf:
      return {{"summary_lifecycle_metrics.json", inference_perf_json(run, figures)}};
  }
  return {};
}

}  // namespace kvist::report

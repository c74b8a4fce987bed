#include "kvist/loadgen/status.h"

#include <optional>

#include "kvist/base/json_writer.h"

namespace kvist::loadgen {
namespace {

void write_optional(JsonWriter& json, std::string_view name, const std::optional<double>& value) {
  json.key(name);
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}

void write_totals(JsonWriter& json, const workload::RecorderTotals& totals) {
  json.key("turns").begin_object();
  json.field("succeeded", totals.turns_succeeded);
  json.field("failed", totals.turns_failed);
  json.field("abandoned", totals.turns_abandoned);
  json.end_object();
  json.field("conversations_started", totals.conversations_started);
  json.field("output_tokens", totals.output_tokens);
  json.field("missing_usage", totals.missing_usage);
  json.field("samples_refused", totals.samples_refused);
}

void write_window(JsonWriter& json, const Status& status) {
  const workload::Snapshot& snapshot = status.measures.snapshot;
  json.key("window").begin_object();
  write_optional(json, "ttft_p50_ms", snapshot.ttft_p50_ms);
  write_optional(json, "ttft_p95_ms", snapshot.ttft_p95_ms);
  write_optional(json, "tpot_p50_ms", snapshot.tpot_p50_ms);
  write_optional(json, "tpot_p95_ms", snapshot.tpot_p95_ms);
  write_optional(json, "itl_p50_ms", status.measures.gaps.quantiles_ms[0]);
  write_optional(json, "itl_p95_ms", status.measures.gaps.quantiles_ms[1]);
  write_optional(json, "itl_p99_ms", status.measures.gaps.quantiles_ms[2]);
  write_optional(json, "request_mean_itl_p50_ms", snapshot.itl_p50_ms);
  write_optional(json, "request_mean_itl_p95_ms", snapshot.itl_p95_ms);
  write_optional(json, "latency_p50_ms", snapshot.latency_p50_ms);
  write_optional(json, "latency_p95_ms", snapshot.latency_p95_ms);
  json.field("output_tokens_per_s", snapshot.output_tokens_per_s);
  json.field("turns_per_s", snapshot.turns_per_s);
  json.field("conversation_starts_per_s", snapshot.conversation_starts_per_s);
  json.field("error_pct", snapshot.error_pct);
  json.end_object();
}

void write_load(JsonWriter& json, const ClientLoad& load) {
  json.key("client").begin_object();
  json.field("loop_delay_p99_ms", load.loop_delay_p99_ms);
  json.field("loop_delay_max_ms", load.loop_delay_max_ms);
  json.field("cpu_seconds", load.cpu_seconds);
  json.end_object();
}

}  // namespace

std::string status_json(const Status& status) {
  JsonWriter json;
  json.begin_object();
  json.field("state", status.state);
  json.field("target", status.target);
  json.field("model", status.model);
  json.field("concurrency", status.concurrency);
  json.field("seed", status.seed);
  json.field("max_start_rate", status.target_rps);
  json.field("target_rps", status.target_rps);  // what it was called before
  json.field("in_flight", status.measures.snapshot.in_flight);
  json.field("dropped_start_slots", status.measures.dropped_start_slots);
  json.field("samples_kept", status.measures.kept_samples);
  write_totals(json, status.measures.totals);
  json.field("window_s", to_seconds(status.window));
  write_window(json, status);
  write_load(json, status.load);
  json.end_object();
  return json.take();
}

}  // namespace kvist::loadgen

#include "kvist/dashboard/worker_readings.h"

#include <charconv>
#include <initializer_list>
#include <limits>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/telemetry/exposition.h"

namespace kvist::dashboard {
namespace {

constexpr double kMost = 1e18;

/// A number that is told; of some, 0 means that it is not.
Result<std::optional<double>> number(const JsonObject& object, std::string_view name) {
  return object.find_double(name, -kMost, kMost);
}
Result<std::optional<double>> positive(const JsonObject& object, std::string_view name) {
  KVIST_TRY(std::optional<double> value, number(object, name));
  if (value && *value <= 0) value.reset();
  return value;
}
Result<std::string> cut_text(const JsonObject& object, std::string_view name) {
  constexpr std::size_t kMostText = 512;
  KVIST_TRY(const std::optional<std::string_view> value, object.find_string(name));
  return std::string(value.value_or("").substr(0, kMostText));
}

Result<void> read_limits(const JsonObject& worker, WorkerStatus& status) {
  KVIST_TRY(const std::optional<JsonObject> limits, worker.find_object("limits"));
  if (!limits) return {};
  KVIST_TRY(status.slots, positive(*limits, "max_batch_size"));
  KVIST_TRY(status.kv_blocks, positive(*limits, "kv_blocks"));
  KVIST_TRY(status.block_size, positive(*limits, "block_size"));
  if (!status.slots) return {};
  KVIST_TRY(status.slots_source, cut_text(*limits, "max_batch_size_source"));
  return {};
}

Result<WorkerStatus> read_worker(const JsonObject& worker, const std::string& model) {
  WorkerStatus status;
  status.model = model;
  KVIST_TRY(const std::string_view name, worker.require_string("name"));
  status.name = std::string(name.substr(0, 256));
  KVIST_TRY(status.url, cut_text(worker, "url"));
  KVIST_TRY(status.state, cut_text(worker, "state"));
  KVIST_TRY(status.problem, cut_text(worker, "last_problem"));
  KVIST_TRY_VOID(read_limits(worker, status));
  KVIST_TRY(status.in_flight, number(worker, "in_flight"));
  KVIST_TRY(status.prefill_tokens, number(worker, "prefill_tokens"));
  KVIST_TRY(status.indexed_blocks, number(worker, "indexed_blocks"));
  KVIST_TRY(const auto restarts, worker.find_unsigned("restarts", 0, std::numeric_limits<std::uint64_t>::max()));
  status.restarts = restarts.value_or(0);
  KVIST_TRY(const std::optional<JsonObject> cache, worker.find_object("cache"));
  if (cache) {
    KVIST_TRY(status.trust, cut_text(*cache, "trust"));
  }
  return status;
}

Result<void> read_model(const JsonObject& object, GatewayStatus& status) {
  KVIST_TRY(const std::string model, cut_text(object, "model"));
  KVIST_TRY(const std::string mode, cut_text(object, "mode"));
  if (status.mode.empty()) {
    status.mode = mode;
    status.model = model;
  }
  KVIST_TRY(const JsonArray workers, object.require_array("workers"));
  for (const JsonValue one : workers) {
    if (status.workers.size() == kMostWorkers) return {};
    KVIST_TRY(const JsonObject worker, one.as_object());
    KVIST_TRY(WorkerStatus read, read_worker(worker, model));
    status.workers.push_back(std::move(read));
  }
  return {};
}

std::optional<double> first_of(const telemetry::MetricSamples& page, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto value = page.sum(name)) return value;
  return std::nullopt;
}

std::optional<double> number_in(std::optional<std::string_view> label) {
  double value = 0;
  if (!label) return std::nullopt;
  const auto [end, error] = std::from_chars(label->data(), label->data() + label->size(), value);
  if (error != std::errc() || end != label->data() + label->size() || !(value > 0)) return std::nullopt;
  return value;
}

}  // namespace

Result<GatewayStatus> read_gateway_status(std::string_view json) {
  JsonDocument document({.name = "gateway status", .root = "status"});
  KVIST_TRY(const JsonObject root, document.parse_object(json));
  GatewayStatus status;
  KVIST_TRY(const std::optional<JsonArray> models, root.find_array("models"));
  if (!models) {
    KVIST_TRY_VOID(read_model(root, status));
    return status;
  }
  status.several_models = models->size() > 1;
  for (const JsonValue one : *models) {
    KVIST_TRY(const JsonObject model, one.as_object());
    KVIST_TRY_VOID(read_model(model, status));
  }
  return status;
}

Result<GatewayCounters> read_gateway_counters(std::string_view page) {
  KVIST_TRY(const telemetry::MetricSamples samples, telemetry::MetricSamples::parse(page));
  GatewayCounters counters;
  for (const telemetry::MetricSample& sample : samples.samples()) {
    const bool ended = sample.name == "kvist_gateway_requests_total";
    if (!ended && sample.name != "kvist_gateway_kv_batches_applied_total") continue;
    for (const auto& [label, value] : sample.labels) {
      if (label != "worker" || value.empty()) continue;
      auto& by_worker = ended ? counters.ended : counters.batches;
      if (by_worker.size() < kMostWorkers || by_worker.contains(value)) by_worker[value] += sample.value;
    }
  }
  return counters;
}

Result<WorkerPage> read_worker_page(std::string_view page) {
  KVIST_TRY(const telemetry::MetricSamples samples, telemetry::MetricSamples::parse(page));
  WorkerPage read;
  read.running = samples.sum("vllm:num_requests_running");
  read.waiting = samples.sum("vllm:num_requests_waiting");
  // Of data-parallel ranks, of which each tells its own; everything else here adds up.
  read.kv_usage = samples.mean("vllm:kv_cache_usage_perc");
  if (!read.kv_usage) read.kv_usage = samples.mean("vllm:gpu_cache_usage_perc");
  read.kv_blocks = number_in(samples.label("vllm:cache_config_info", "num_gpu_blocks"));
  read.slots = samples.sum("kvist_worker_max_batch_size");
  read.prefill_backlog_tokens = samples.sum("kvist_worker_prefill_backlog_tokens");
  read.evictions = samples.sum("kvist_worker_evicted_blocks_total");
  read.preemptions = samples.sum("vllm:num_preemptions_total");
  read.prefix_queries = first_of(samples, {"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"});
  read.prefix_hits = first_of(samples, {"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"});
  read.drafted = samples.sum("vllm:spec_decode_num_draft_tokens_total");
  read.accepted = samples.sum("vllm:spec_decode_num_accepted_tokens_total");
  read.generated = samples.sum("vllm:generation_tokens_total");
  read.token_gap_s =
      first_of(samples, {"vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum"});
  read.token_gaps =
      first_of(samples, {"vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"});
  return read;
}

}  // namespace kvist::dashboard

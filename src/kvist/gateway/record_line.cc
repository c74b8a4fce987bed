#include "kvist/gateway/record_line.h"

#include <chrono>

#include "kvist/base/json_writer.h"

namespace kvist::gateway {
namespace {

/// Milliseconds to the microsecond: what lies below is the machine's noise, and the text stays short.
double rounded_ms(Duration duration) {
  return static_cast<double>(std::chrono::round<std::chrono::microseconds>(duration).count()) / 1e3;
}

void write_times(JsonWriter& json, const TrafficRecord& record) {
  if (record.first_token != TimePoint{}) {
    json.field("ttft_ms", rounded_ms(record.first_token - record.arrived));
    if (record.output_tokens > 1 && record.last_token > record.first_token) {
      // To the nanosecond: a thousand tokens make a microsecond of it.
      const auto per_token = (record.last_token - record.first_token) / (record.output_tokens - 1);
      json.field("tpot_ms", static_cast<double>(per_token.count()) / 1e6);
    }
  }
  json.field("latency_ms", rounded_ms(record.ended - record.arrived));
}

}  // namespace

std::string head_line(const Recording& recording, std::uint64_t part) {
  JsonWriter json;
  json.begin_object().field("kvist_record", 1).field("recording", recording.id).field("part", part);
  json.field("started_unix_ms", recording.started_unix_ms).field("model", recording.model);
  json.field("tokens_per_hash", recording.block_size).key("workers").begin_array();
  for (const std::string& worker : recording.workers) json.value(worker);
  json.end_array().end_object();
  return json.take() + '\n';
}

std::string record_line(const Recording& recording, const TrafficRecord& record) {
  JsonWriter json;
  json.begin_object().field("timestamp", rounded_ms(record.arrived - recording.clock_start));
  json.field("input_length", record.prompt_tokens).field("output_length", record.output_tokens);
  json.key("hash_ids").begin_array();
  for (const kv::BlockHash block : routing::view(record.blocks)) json.value(recording.key.json_number(block.value()));
  json.end_array();
  if (record.session != 0) json.field("session_id", recording.key.json_number(record.session));
  json.field("mode", to_string(record.mode)).field("outcome", to_string(record.outcome));
  if (!record.worker.empty()) json.field("worker", record.worker);
  json.field("stream", record.streams);
  write_times(json, record);
  if (record.cached_tokens) json.field("cached_tokens", *record.cached_tokens);
  json.end_object();
  return json.take() + '\n';
}

}  // namespace kvist::gateway

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "kvist/report/load_exports.h"
#include "kvist/report/load_samples.h"

namespace kvist::report {
namespace {

using workload::TurnOutcome;
using workload::TurnSample;

constexpr std::string_view kMs = "ms";
constexpr std::string_view kTokens = "tokens";

/// A measure with all its statistics; left out without samples.
void metric(JsonWriter& json, std::string_view tag, std::string_view unit, const SampleList& samples) {
  if (samples.empty()) return;
  json.key(tag).begin_object().field("unit", unit).field("avg", samples.mean());
  for (const int q : {1, 5, 10, 25, 50, 75, 90, 95, 99}) json.field(fmt::format("p{}", q), samples.quantile(q / 100.0));
  json.field("min", samples.min()).field("max", samples.max()).field("std", samples.standard_deviation());
  json.field("count", samples.count()).field("sum", samples.sum()).end_object();
}

/// A single number; left out where it is not known.
void total(JsonWriter& json, std::string_view tag, std::string_view unit, std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return;
  json.key(tag).begin_object().field("unit", unit).field("avg", *value).end_object();
}

std::optional<double> decode_ms(const TurnSample& turn) {
  return analysis::has_first_token(turn) ? std::optional(to_milliseconds(turn.last_token - turn.first_token))
                                         : std::nullopt;
}
std::optional<double> second_token_ms(const TurnSample& turn) {
  return turn.gaps_ms.empty() ? std::nullopt : std::optional(static_cast<double>(turn.gaps_ms.front()));
}
std::optional<double> tokens_per_user(const TurnSample& turn) {
  const std::optional<double> tpot = tpot_ms(turn);
  return tpot && *tpot > 0 ? std::optional(1e3 / *tpot) : std::nullopt;
}
std::optional<double> effective_ms(const TurnSample& turn) {
  return to_milliseconds(turn.ended - turn.intended);
}
std::optional<double> send_delay_ms(const TurnSample& turn) {
  return to_milliseconds(turn.sent - turn.intended);
}

std::optional<double> known(bool condition, std::uint64_t value) {
  return condition ? std::optional(static_cast<double>(value)) : std::nullopt;
}

void throughput(JsonWriter& json, const LoadFigures& figures) {
  const LoadTotals& t = figures.totals;
  const bool usage = t.without_usage == 0;
  total(json, "request_throughput", "requests/sec", figures.completed_per_s);
  total(json, "request_count", "requests", static_cast<double>(t.succeeded));
  if (t.failed > 0) total(json, "error_request_count", "requests", static_cast<double>(t.failed));
  total(json, "completed_request_count", "requests", static_cast<double>(t.succeeded));
  total(json, "request_error_rate", "%", figures.level.analysis.error_pct);
  total(json, "output_token_throughput", "tokens/sec", figures.output_tokens_per_s);
  total(json, "input_token_throughput", "tokens/sec", figures.prompt_tokens_per_s);
  if (figures.output_tokens_per_s && figures.prompt_tokens_per_s) {
    total(json, "total_token_throughput", "tokens/sec", *figures.output_tokens_per_s + *figures.prompt_tokens_per_s);
  }
  total(json, "total_output_tokens", kTokens, static_cast<double>(t.output_tokens));
  total(json, "total_osl", kTokens, static_cast<double>(t.output_tokens));
  total(json, "total_isl", kTokens, known(usage, t.prompt_tokens));
  total(json, "total_usage_prompt_tokens", kTokens, known(usage, t.prompt_tokens));
  total(json, "total_usage_completion_tokens", kTokens, known(usage, t.output_tokens));
  total(json, "total_usage_prompt_cache_read_tokens", kTokens, known(t.knows_cached(), t.cached_tokens));
  total(json, "overall_usage_prompt_cache_read_pct", "%", figures.level.analysis.hit_rate.client_pct);
  total(json, "benchmark_duration", "sec", figures.window_s);
}

void metrics(JsonWriter& json, const std::vector<const TurnSample*>& turns, const TurnValue& cached_tokens) {
  metric(json, "request_latency", kMs, samples_of(turns, latency_ms));
  metric(json, "time_to_first_token", kMs, samples_of(turns, ttft_ms));
  metric(json, "time_to_second_token", kMs, samples_of(turns, second_token_ms));
  metric(json, "time_to_first_output_token", kMs, samples_of(turns, ttft_ms));
  metric(json, "inter_token_latency", kMs, samples_of(turns, tpot_ms));
  metric(json, "inter_chunk_latency", kMs, gaps_of(turns));
  metric(json, "decode_duration", kMs, samples_of(turns, decode_ms));
  metric(json, "output_token_throughput_per_user", "tokens/sec/user", samples_of(turns, tokens_per_user));
  metric(json, "output_sequence_length", kTokens, samples_of(turns, output_tokens));
  metric(json, "output_token_count", kTokens, samples_of(turns, output_tokens));
  metric(json, "input_sequence_length", kTokens, samples_of(turns, prompt_tokens));
  metric(json, "usage_prompt_tokens", kTokens, samples_of(turns, prompt_tokens));
  metric(json, "usage_prompt_cache_read_tokens", kTokens, samples_of(turns, cached_tokens));
  metric(json, "effective_latency", kMs, samples_of(turns, effective_ms));
  metric(json, "credit_to_start_latency", kMs, samples_of(turns, send_delay_ms));
}

/// How AIPerf calls the load; nothing where it has no such one.
std::optional<std::string_view> phase_type(const LoadRun& run) {
  if (run.concurrency) return "concurrency";
  if (!run.rate_per_s) return "fixed_schedule";
  if (!run.workload.arrivals.profile.empty()) return std::nullopt;
  switch (run.workload.arrivals.kind) {
    case spec::ArrivalKind::kConstant:
      return "constant";
    case spec::ArrivalKind::kPoisson:
      return "poisson";
    case spec::ArrivalKind::kBursty:
      return "gamma";
    case spec::ArrivalKind::kBursts:
    case spec::ArrivalKind::kClosed:
      break;
  }
  return std::nullopt;
}

void input_config(JsonWriter& json, const LoadRun& run) {
  json.key("input_config").begin_object();
  json.key("models").begin_object().key("items").begin_array();
  json.begin_object().field("name", run.model).end_object().end_array().end_object();
  json.key("endpoint").begin_object().key("urls").begin_array().value(run.target).end_array();
  json.field("type", run.is_chat ? "chat" : "completions").field("streaming", true).end_object();
  json.key("datasets").begin_array().begin_object().field("name", "main").field("type", run.dataset).end_object();
  json.end_array().key("phases").begin_array().begin_object().field("name", "profiling").field("kind", "profiling");
  json.key("type");
  if (const std::optional<std::string_view> type = phase_type(run)) {
    json.value(*type);
  } else {
    json.null();
  }
  if (run.requests) json.field("requests", *run.requests);
  if (run.concurrency) json.field("concurrency", *run.concurrency);
  if (run.rate_per_s) json.field("rate", *run.rate_per_s);
  const spec::ArrivalSpec& arrivals = run.workload.arrivals;
  if (arrivals.kind == spec::ArrivalKind::kBursty) {
    json.field("smoothness", 1 / (arrivals.variation * arrivals.variation));
  }
  json.end_object().end_array().end_object();
}

void errors(JsonWriter& json, const LoadRun& run) {
  json.key("error_summary").begin_array();
  std::map<std::string_view, std::size_t> counts;
  for (const TurnSample* turn : turns_with(run.level, TurnOutcome::kFailed)) ++counts[turn->error];
  for (const auto& [message, count] : counts) {
    json.begin_object().key("error_details").begin_object().key("code").null().field("type", "RequestFailed");
    json.field("message", message).end_object().field("count", count).end_object();
  }
  json.end_array();
}

std::int64_t unix_ns(const LoadRun& run, TimePoint at) {
  return static_cast<std::int64_t>(std::llround(run.started_unix_s * 1e9)) + (at - run.level.started).count();
}

void value_field(JsonWriter& json, std::string_view tag, std::string_view unit, std::optional<double> value) {
  if (value) json.key(tag).begin_object().field("value", *value).field("unit", unit).end_object();
}

void record_metadata(JsonWriter& json, const LoadRun& run, const TurnSample& turn) {
  const std::string conversation = fmt::format("{}-{}", run.level.seed, turn.conversation.value());
  json.key("metadata").begin_object().field("session_num", turn.conversation.value());
  json.field("x_request_id", fmt::format("{}-{}-{}", run.request_prefix, turn.conversation.value(), turn.turn));
  json.field("x_correlation_id", conversation).field("conversation_id", conversation).field("turn_index", turn.turn);
  json.field("credit_issued_ns", unix_ns(run, turn.intended));
  json.field("request_start_ns", unix_ns(run, turn.sent == TimePoint{} ? turn.intended : turn.sent));
  json.key("request_ack_ns").null().field("request_end_ns", unix_ns(run, turn.ended));
  json.field("worker_id", "kvist").field("record_processor_id", "kvist");
  // What is not in the totals must not be in those that a reader makes of these lines.
  json.field("benchmark_phase", sent_in_window(run.level, turn) ? "profiling" : "warmup");
  json.field("was_cancelled", turn.outcome == TurnOutcome::kAbandoned).end_object();
}

void record_metrics(JsonWriter& json, const TurnSample& turn, const TurnValue& cached_tokens) {
  json.key("metrics").begin_object();
  if (turn.outcome == TurnOutcome::kSucceeded) {
    value_field(json, "time_to_first_token", kMs, ttft_ms(turn));
    value_field(json, "time_to_second_token", kMs, second_token_ms(turn));
    value_field(json, "time_to_first_output_token", kMs, ttft_ms(turn));
    value_field(json, "request_latency", kMs, latency_ms(turn));
    value_field(json, "inter_token_latency", kMs, tpot_ms(turn));
    value_field(json, "decode_duration", kMs, decode_ms(turn));
    value_field(json, "output_token_throughput_per_user", "tokens/sec/user", tokens_per_user(turn));
    json.key("inter_chunk_latency").begin_object().key("value").begin_array();
    for (const float gap : turn.gaps_ms) json.value(static_cast<double>(gap));
    json.end_array().field("unit", kMs).end_object();
    value_field(json, "input_sequence_length", kTokens, prompt_tokens(turn));
    value_field(json, "output_sequence_length", kTokens, output_tokens(turn));
    value_field(json, "output_token_count", kTokens, output_tokens(turn));
    value_field(json, "usage_prompt_tokens", kTokens, prompt_tokens(turn));
    value_field(json, "usage_prompt_cache_read_tokens", kTokens, cached_tokens(turn));
    value_field(json, "effective_latency", kMs, effective_ms(turn));
    value_field(json, "credit_to_start_latency", kMs, send_delay_ms(turn));
  }
  json.end_object();
}

}  // namespace

std::string aiperf_json(const LoadRun& run, const LoadFigures& figures) {
  JsonWriter json(2);
  json.begin_object().field("schema_version", "1.4").field("aiperf_version", "kvist " + run.kvist_version);
  json.field("benchmark_id", run.request_prefix);
  throughput(json, figures);
  metrics(json, measured_turns(run.level), cached_tokens_of(run.level));
  input_config(json, run);
  json.key("run_info").begin_object().field("benchmark_id", run.request_prefix).field("trial", 0);
  json.field("random_seed", run.level.seed).field("cli_command", run.command).end_object();
  json.field("was_cancelled", figures.totals.abandoned > 0).field("is_complete", true);
  errors(json, run);
  json.field("start_time", run.started_utc).end_object();
  return json.take() + "\n";
}

std::string aiperf_records(const LoadRun& run) {
  std::string lines;
  const TurnValue cached_tokens = cached_tokens_of(run.level);
  for (const TurnSample& turn : run.level.turns) {
    JsonWriter json;
    json.begin_object();
    record_metadata(json, run, turn);
    record_metrics(json, turn, cached_tokens);
    json.key("error");
    if (turn.outcome == TurnOutcome::kFailed) {
      json.begin_object().key("code").null().field("type", "RequestFailed").field("message", turn.error).end_object();
    } else {
      json.null();
    }
    json.end_object();
    lines += json.take() + "\n";
  }
  return lines;
}

}  // namespace kvist::report

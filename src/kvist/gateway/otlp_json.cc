#include "kvist/gateway/otlp_json.h"

#include <cmath>
#include <cstdint>

#include "kvist/base/json_writer.h"
#include "kvist/base/version.h"

namespace kvist::gateway {
namespace {

constexpr std::size_t kMaxTextBytes = 512;

enum Kind : int { kInternal = 1, kServer = 2, kClient = 3 };  // SpanKind
enum Status : int { kUnset = 0, kError = 2 };                 // StatusCode

class Spans {
 public:
  Spans(JsonWriter& json, const SpanSource& source)
      : json_(&json), clock_ns_(std::llround(source.clock_unix_s * 1e9)) {}

  void write(const RequestReport& report) {
    begin(report, report.trace->span, report.parent, report.method + " " + short_text(report.path), kServer,
          report.arrived, report.ended);
    text("http.request.method", report.method);
    text("url.path", short_text(report.path));
    if (report.status != 0) number("http.response.status_code", static_cast<std::uint64_t>(report.status));
    text("gen_ai.request.model", report.model);
    text("kvist.request_id", report.request_id);
    text("kvist.key", report.key);
    text("kvist.outcome", report.outcome);
    optional("gen_ai.usage.input_tokens", report.prompt_tokens);
    optional("gen_ai.usage.output_tokens", report.output_tokens);
    optional("kvist.predicted_cached_tokens", report.predicted_cached_tokens);
    optional("kvist.cached_tokens", report.cached_tokens);
    number("kvist.attempts", report.attempts.size());
    constexpr int kServerError = 500;
    const bool failed = report.status >= kServerError || (report.status != 0 && report.outcome == "broken_stream");
    end(failed ? report.outcome : "");
    if (report.decided != TimePoint{}) {
      begin(report, report.routing, report.trace->span, "route", kInternal, report.asked, report.decided);
      if (!report.attempts.empty()) text("kvist.worker", report.attempts.front().worker);
      end("");
    }
    for (const AttemptReport& attempt : report.attempts) write(report, attempt);
  }

 private:
  void write(const RequestReport& report, const AttemptReport& attempt) {
    begin(report, attempt.span, report.trace->span, "attempt " + attempt.worker, kClient, attempt.began, attempt.ended);
    text("kvist.worker", attempt.worker);
    if (attempt.status != 0) number("http.response.status_code", static_cast<std::uint64_t>(attempt.status));
    text("error.type", attempt.failure);
    end(attempt.failure);
  }

  void begin(const RequestReport& report, telemetry::SpanId id, telemetry::SpanId parent, const std::string& name,
             Kind kind, TimePoint from, TimePoint to) {
    json_->begin_object().field("traceId", report.trace->trace.hex()).field("spanId", id.hex());
    if (parent.value != 0) json_->field("parentSpanId", parent.hex());
    json_->field("name", name).field("kind", static_cast<int>(kind));
    json_->field("startTimeUnixNano", unix_ns(from)).field("endTimeUnixNano", unix_ns(std::max(from, to)));
    json_->key("attributes").begin_array();
  }
  void end(std::string_view problem) {
    json_->end_array().key("status").begin_object().field("code", static_cast<int>(problem.empty() ? kUnset : kError));
    if (!problem.empty()) json_->field("message", problem);
    json_->end_object().end_object();
  }

  void text(std::string_view key, std::string_view value) {
    if (value.empty()) return;
    json_->begin_object().field("key", key).key("value").begin_object().field("stringValue", value);
    json_->end_object().end_object();
  }
  // 64-bit numbers are text in the JSON of protobuf.
  void number(std::string_view key, std::uint64_t value) {
    json_->begin_object().field("key", key).key("value").begin_object().field("intValue", std::to_string(value));
    json_->end_object().end_object();
  }
  template <class Value>
  void optional(std::string_view key, const std::optional<Value>& value) {
    if (value) number(key, *value);
  }

  [[nodiscard]] static std::string short_text(const std::string& text) { return text.substr(0, kMaxTextBytes); }
  [[nodiscard]] std::string unix_ns(TimePoint at) const {
    return std::to_string(clock_ns_ + at.time_since_epoch().count());
  }

  JsonWriter* json_;
  std::int64_t clock_ns_;
};

void resource_field(JsonWriter& json, std::string_view key, std::string_view value) {
  json.begin_object().field("key", key).key("value").begin_object().field("stringValue", value);
  json.end_object().end_object();
}

}  // namespace

std::string otlp_json(const SpanSource& source, std::span<const std::shared_ptr<const RequestReport>> reports) {
  JsonWriter json;
  json.begin_object().key("resourceSpans").begin_array().begin_object();
  json.key("resource").begin_object().key("attributes").begin_array();
  resource_field(json, "service.name", source.service_name);
  resource_field(json, "service.instance.id", source.instance);
  resource_field(json, "service.version", kVersion);
  json.end_array().end_object();
  json.key("scopeSpans").begin_array().begin_object();
  json.key("scope").begin_object().field("name", "kvist.gateway").field("version", kVersion).end_object();
  json.key("spans").begin_array();
  Spans spans(json, source);
  for (const auto& report : reports) spans.write(*report);
  json.end_array().end_object().end_array().end_object().end_array().end_object();
  return json.take();
}

}  // namespace kvist::gateway

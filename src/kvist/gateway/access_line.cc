#include "kvist/gateway/access_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>

#include "kvist/base/json_writer.h"

namespace kvist::gateway {
namespace {

constexpr std::size_t kMaxPathBytes = 512;

/// Milliseconds to the microsecond.
double rounded_ms(Duration duration) {
  return static_cast<double>(std::chrono::round<std::chrono::microseconds>(duration).count()) / 1e3;
}

/// Writes the fields of a line in one of the two formats.
class Line {
 public:
  Line(spec::LogFormat format, const std::string& time) : is_json_(format == spec::LogFormat::kJson) {
    if (is_json_) {
      json_.begin_object().field("time", time).field("log", "access");
    } else {
      text_ = time + " access";
    }
  }

  void field(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    if (is_json_) {
      json_.field(name, value);
    } else {
      text_.append(" ").append(name).append("=");
      append_value(value);
    }
  }
  template <class Number>
  void number(std::string_view name, Number value) {
    if (is_json_) {
      json_.field(name, value);
    } else {
      text_ += fmt::format(" {}={}", name, value);
    }
  }

  void retries(const std::vector<AttemptReport>& attempts) {
    if (attempts.size() < 2) return;
    if (is_json_) json_.key("retries").begin_array();
    std::string list;
    for (std::size_t i = 0; i + 1 < attempts.size(); ++i) {
      if (is_json_) {
        json_.begin_object().field("worker", attempts[i].worker);
        json_.field("reason", attempts[i].failure).end_object();
      } else {
        list += (i == 0 ? "" : ",") + attempts[i].worker + ":" + std::string(attempts[i].failure);
      }
    }
    if (is_json_) {
      json_.end_array();
    } else {
      field("retries", list);
    }
  }

  [[nodiscard]] std::string take() {
    if (is_json_) {
      json_.end_object();
      text_ = json_.take();
    }
    return std::move(text_) + '\n';
  }

 private:
  void append_value(std::string_view value) {
    const bool plain =
        std::ranges::all_of(value, [](char c) { return c > ' ' && c <= '~' && c != '"' && c != '\\' && c != '='; });
    if (plain) {
      text_ += value;
    } else {
      append_json_string(text_, value);
    }
  }

  bool is_json_;
  JsonWriter json_;
  std::string text_;
};

template <class Value>
void optional_number(Line& line, std::string_view name, const std::optional<Value>& value) {
  if (value) line.number(name, *value);
}

}  // namespace

std::string utc_text(double unix_seconds) {
  const auto ms = static_cast<std::int64_t>(std::floor(unix_seconds * 1e3));
  const std::time_t seconds = ms / 1'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1'900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, ms % 1'000);
}

std::string access_line(const RequestReport& report, spec::LogFormat format, double ended_unix) {
  Line line(format, utc_text(ended_unix));
  line.field("request_id", report.request_id);
  line.field("key", report.key);
  line.field("method", report.method);
  line.field("path", std::string_view(report.path).substr(0, kMaxPathBytes));
  line.field("model", report.model);
  line.number("status", report.status);
  line.field("outcome", report.outcome);
  if (!report.attempts.empty()) line.field("worker", report.attempts.back().worker);
  optional_number(line, "prompt_tokens", report.prompt_tokens);
  optional_number(line, "predicted_cached_tokens", report.predicted_cached_tokens);
  optional_number(line, "cached_tokens", report.cached_tokens);
  optional_number(line, "output_tokens", report.output_tokens);
  line.retries(report.attempts);
  if (!report.attempts.empty()) line.field("failure", report.attempts.back().failure);
  if (report.first_token != TimePoint{}) line.number("ttft_ms", rounded_ms(report.first_token - report.arrived));
  line.number("duration_ms", rounded_ms(report.ended - report.arrived));
  if (report.trace) line.field("trace_id", report.trace->trace.hex());
  return line.take();
}

}  // namespace kvist::gateway

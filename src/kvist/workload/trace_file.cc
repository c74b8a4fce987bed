#include "kvist/workload/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/base/output_file.h"
#include "kvist/workload/dynamo_trace.h"
#include "kvist/workload/recorded_traffic.h"
#include "kvist/workload/text_lines.h"
#include "kvist/workload/trace_line.h"
#include "kvist/workload/trace_links.h"

namespace kvist::workload {
namespace {

/// Collects a trace line by line.
class TraceReader {
 public:
  TraceReader(std::string name, const TraceLimits& limits) : name_(std::move(name)), parser_(name_, limits) {}

  [[nodiscard]] Result<void> add_line(std::string_view text) {
    KVIST_TRY(std::optional<TraceLine> line, parser_.parse(text));
    if (line) lines_.push_back(*std::move(line));
    return {};
  }
  [[nodiscard]] Result<Trace> finish(const TraceReading& reading) {
    if (lines_.empty()) return fail(ErrorCode::kInvalidArgument, name_ + ": holds no request");
    return linked_trace(std::move(lines_), parser_, reading);
  }

 private:
  const std::string name_;
  TraceLineParser parser_;
  std::vector<TraceLine> lines_;
};

/// An option that would change nothing is an error: who gives it takes the file for another one.
Result<void> check_rows(const TraceReading& reading, const std::string& name) {
  if (reading.rows == spec::TraceRows::kWhole) return {};
  return fail(ErrorCode::kInvalidArgument,
              name +
                  ": rows: added is for sessions in Mooncake's format, as AIPerf has them; the rows of this file "
                  "have whole prompts");
}

/// Milliseconds as the shortest JSON number: whole where it can be.
void write_milliseconds(JsonWriter& json, std::string_view key, Duration at) {
  const auto us = std::chrono::round<std::chrono::microseconds>(at).count();
  json.key(key);
  if (us % 1'000 == 0) {
    json.value(us / 1'000);
  } else {
    json.value(static_cast<double>(us) / 1e3);
  }
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& name, const TraceLimits& limits,
                          const TraceReading& reading) {
  if (is_record(text)) {
    KVIST_TRY_VOID(check_rows(reading, name));
    KVIST_TRY(RecordedTraffic traffic, parse_record(text, name, limits));
    return std::move(traffic.trace);
  }
  if (is_dynamo_trace(text.substr(0, std::min(text.find('\n'), kHeadBytes)))) {
    KVIST_TRY_VOID(check_rows(reading, name));
    KVIST_TRY(RecordedTraffic traffic, parse_dynamo_trace(text, name, limits));
    return std::move(traffic.trace);
  }
  TraceReader lines(name, limits);
  KVIST_TRY_VOID(for_each_line(text, [&](std::string_view line, bool) { return lines.add_line(line); }));
  return lines.finish(reading);
}

Result<Trace> load_trace(const std::string& path, const TraceLimits& limits, const TraceReading& reading) {
  // Of what is no file, such as a pipe, opening might never return.
  if (std::error_code unknown; std::filesystem::exists(path, unknown) && !std::filesystem::is_regular_file(path)) {
    return fail(ErrorCode::kInvalidArgument, path + ": not a regular file; want a trace as one");
  }
  const std::string first_line = first_line_of_file(path, kHeadBytes);
  if (is_record(first_line) || is_dynamo_trace(first_line)) {
    KVIST_TRY_VOID(check_rows(reading, path));
    KVIST_TRY(RecordedTraffic traffic, load_traffic(path, limits));
    return std::move(traffic.trace);
  }
  TraceReader lines(path, limits);
  KVIST_TRY_VOID(for_each_line_of_file(path, limits.line_bytes,
                                       [&](std::string_view line, bool) { return lines.add_line(line); }));
  return lines.finish(reading);
}

Result<void> check_instants(const Trace& trace, const spec::TraceSpec& replay, const std::string& name) {
  if (replay.loop == spec::TraceLoop::kClosed) return {};
  if (!trace.has_instants) {
    return fail(
        ErrorCode::kInvalidArgument,
        name + ": no row has a timestamp; it can be replayed in a closed loop (loop: closed, or --concurrency)");
  }
  if (replay.sessions == spec::TraceSessions::kFollow || trace.line_without_instant == 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}:{}: timestamp: missing; with `sessions: ignore` each row needs one, as none waits for "
                          "the answer that it follows (sessions: follow, or loop: closed)",
                          name, trace.line_without_instant));
}

std::string trace_text(const Trace& trace) {
  std::string text;
  for (const TraceRequest& request : trace.requests) {
    JsonWriter json;
    json.begin_object();
    write_milliseconds(json, "timestamp", request.at);
    json.field("input_length", request.input_tokens).field("output_length", request.output_tokens);
    json.key("hash_ids").begin_array();
    for (const std::uint64_t id : request.hash_ids) json.value(id);
    json.end_array();
    if (request.after) {
      json.field("follows", request.after->request);
      if (request.after->pause) write_milliseconds(json, "delay", *request.after->pause);
    }
    json.end_object();
    text += json.take();
    text += '\n';
  }
  return text;
}

Result<void> write_trace(const Trace& trace, const std::string& path) {
  KVIST_TRY_VOID(write_file(path, trace_text(trace)));
  return {};
}

}  // namespace kvist::workload

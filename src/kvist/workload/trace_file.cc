#include "kvist/workload/trace_file.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/base/output_file.h"

namespace kvist::workload {
namespace {

constexpr double kMaxTimestampMs = 1e12;  // 31 years, far below the range of 64 bits of nanoseconds
constexpr std::uint64_t kMaxTokens = 16U << 20;
constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
constexpr std::size_t kDepth = 8;  // a request is a flat object with one list

/// Collects a trace line by line. Memory is that of the trace and one line.
class TraceReader {
 public:
  TraceReader(std::string name, const TraceLimits& limits)
      : name_(std::move(name)), limits_(limits), document_(rules(limits)) {}

  /// The next line, without its end. Empty lines are ignored.
  [[nodiscard]] Result<void> add_line(std::string_view line) {
    ++line_;
    if (line.size() > limits_.line_bytes) {
      return invalid(fmt::format("longer than {} bytes; a trace has one request per line", limits_.line_bytes));
    }
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    if (trace_.requests.size() >= limits_.requests) {
      return invalid(fmt::format("more than {} requests; cut the trace", limits_.requests));
    }
    Result<void> added = add_request(line);
    if (!added) return std::unexpected(std::move(added).error().in(fmt::format("{}:{}", name_, line_)));
    return {};
  }

  [[nodiscard]] Result<Trace> finish() {
    if (trace_.requests.empty()) return fail(ErrorCode::kInvalidArgument, name_ + ": holds no request");
    return std::move(trace_);
  }

 private:
  [[nodiscard]] std::unexpected<Error> invalid(const std::string& what) const {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", name_, line_, what));
  }

  [[nodiscard]] static JsonRules rules(const TraceLimits& limits) {
    return {.wrong = ErrorCode::kInvalidArgument, .most_bytes = limits.line_bytes, .most_depth = kDepth};
  }

  Result<void> add_request(std::string_view line) {
    KVIST_TRY(const JsonObject object, document_.parse_object(line));
    TraceRequest request;
    KVIST_TRY(request.at, timestamp(object));
    KVIST_TRY(request.input_tokens, tokens(object, "input_length", 1));
    KVIST_TRY(request.output_tokens, tokens(object, "output_length", 0));
    KVIST_TRY(request.hash_ids, hash_ids(object));
    if (!trace_.requests.empty() && request.at < trace_.requests.back().at) {
      return object.wrong(
          "timestamp", fmt::format("{} ms comes after {} ms; sort the trace by timestamp", to_milliseconds(request.at),
                                   to_milliseconds(trace_.requests.back().at)));
    }
    trace_.requests.push_back(std::move(request));
    return {};
  }

  static Result<Duration> timestamp(const JsonObject& object) {
    KVIST_TRY(const JsonValue value, object.require("timestamp"));
    const double number = value.if_double().value_or(-1);
    if (!(number >= 0 && number <= kMaxTimestampMs)) return value.expected("milliseconds, a number from 0 to 1e12");
    // Whole milliseconds are exact; others are rounded to the microsecond.
    if (number == std::floor(number)) return std::chrono::milliseconds(static_cast<std::int64_t>(number));
    return std::chrono::microseconds(std::llround(number * 1e3));
  }

  static Result<std::uint32_t> tokens(const JsonObject& object, std::string_view key, std::uint64_t least) {
    KVIST_TRY(const std::uint64_t tokens, object.require_unsigned(key, least, kMaxTokens));
    return static_cast<std::uint32_t>(tokens);
  }

  Result<std::vector<std::uint64_t>> hash_ids(const JsonObject& object) {
    KVIST_TRY(const JsonArray list, object.require_array("hash_ids", "an array of whole numbers from 0"));
    std::vector<std::uint64_t> ids;
    for (const JsonValue item : list) {
      if (ids_read_++ >= limits_.hash_ids) {
        return list.value().wrong(fmt::format("more than {} in all; cut the trace", limits_.hash_ids));
      }
      const std::optional<std::uint64_t> id = item.if_unsigned();
      if (!id) return item.expected("a whole number from 0");
      ids.push_back(*id);
    }
    ids.shrink_to_fit();
    return ids;
  }

  const std::string name_;
  const TraceLimits limits_;
  JsonDocument document_;
  std::size_t line_ = 0;
  std::size_t ids_read_ = 0;
  Trace trace_;
};

/// Milliseconds as the shortest JSON number: an integer if possible.
void write_timestamp(JsonWriter& json, Duration at) {
  const auto us = std::chrono::round<std::chrono::microseconds>(at).count();
  json.key("timestamp");
  if (us % 1'000 == 0) {
    json.value(us / 1'000);
  } else {
    json.value(static_cast<double>(us) / 1e3);
  }
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& name, const TraceLimits& limits) {
  TraceReader reader(name, limits);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    KVIST_TRY_VOID(reader.add_line(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.finish();
}

Result<Trace> load_trace(const std::string& path, const TraceLimits& limits) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, path + ": cannot be opened");
  TraceReader reader(path, limits);
  std::string pending;  // a line whose end was not read yet
  std::string piece(kPieceBytes, '\0');
  for (bool more = true; more;) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    more = static_cast<bool>(file);
    if (file.bad()) return fail(ErrorCode::kInternal, path + ": cannot be read");
    pending.append(piece, 0, static_cast<std::size_t>(file.gcount()));
    std::string_view rest = pending;
    for (std::size_t end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
      KVIST_TRY_VOID(reader.add_line(rest.substr(0, end)));
      rest.remove_prefix(end + 1);
    }
    // A line without an end must not fill the memory.
    if (!more || rest.size() > limits.line_bytes) {
      KVIST_TRY_VOID(reader.add_line(rest));
      rest = {};
    }
    pending.erase(0, pending.size() - rest.size());
  }
  return reader.finish();
}

std::string trace_text(const Trace& trace) {
  std::string text;
  for (const TraceRequest& request : trace.requests) {
    JsonWriter json;
    json.begin_object();
    write_timestamp(json, request.at);
    json.field("input_length", request.input_tokens).field("output_length", request.output_tokens);
    json.key("hash_ids").begin_array();
    for (const std::uint64_t id : request.hash_ids) json.value(id);
    json.end_array().end_object();
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

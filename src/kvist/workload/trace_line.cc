#include "kvist/workload/trace_line.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/workload/trace_fields.h"

namespace kvist::workload {
namespace {

constexpr std::size_t kDepth = 8;  // a request is a flat object with one list
constexpr std::string_view kMilliseconds = "milliseconds, a number from 0 to 1e12";
constexpr std::string_view kSeconds = "seconds, a number from 0 to 1e9";

JsonRules rules(const TraceLimits& limits) {
  return {.wrong = ErrorCode::kInvalidArgument, .most_bytes = limits.line_bytes, .most_depth = kDepth};
}

/// What ended before any worker had work with it: replaying it would add work that there was not.
bool reached_worker(std::string_view outcome) {
  return outcome == "completed" || outcome == "client_gone" || outcome == "timed_out" || outcome == "broken_stream";
}

/// Timestamps of the two dialects differ by a factor of 1000, so a row is never taken to be of the other one.
Result<TraceDialect> dialect_of(const JsonObject& object, std::optional<TraceDialect> of_rows_before) {
  const bool has_chat = object.peek("chat_id").has_value();
  const bool has_parent = object.peek("parent_chat_id").has_value();
  const TraceDialect dialect =
      of_rows_before.value_or(has_chat && has_parent ? TraceDialect::kBailian : TraceDialect::kMooncake);
  if (dialect == TraceDialect::kMooncake && (has_chat || has_parent)) {
    return object.wrong(has_chat ? "chat_id" : "parent_chat_id",
                        "not expected: only if the first row has both chat_id and parent_chat_id (-1: a first turn) is "
                        "this a trace of Bailian's, with seconds and 16 tokens per id");
  }
  if (dialect == TraceDialect::kBailian && !has_chat) {
    return object.wrong("chat_id", "required, but missing: the first row makes this a trace of Bailian's");
  }
  return dialect;
}

Result<void> read_time(const JsonObject& object, bool in_seconds, TraceLine& line) {
  constexpr double kSecondMs = 1e3;
  KVIST_TRY(const std::optional<Duration> at,
            find_time(object, "timestamp", in_seconds ? kSeconds : kMilliseconds, in_seconds ? kSecondMs : 1));
  line.has_timestamp = at.has_value();
  line.request.at = at.value_or(Duration{});
  return {};
}

Result<void> read_links(const JsonObject& object, bool is_bailian, TraceLine& line) {
  KVIST_TRY(line.session, find_name(object, "session_id"));
  KVIST_TRY(line.delay, find_time(object, object.peek("delay") ? "delay" : "delay_ms", kMilliseconds));
  KVIST_TRY(line.follows, object.find_unsigned("follows", 0, ~std::uint64_t{0}));
  if (!is_bailian) return {};
  KVIST_TRY(line.chat, find_name(object, "chat_id"));
  KVIST_TRY(line.parent_chat, find_name(object, "parent_chat_id"));
  return {};
}

Result<void> read_observed(const JsonObject& object, TraceLine& line) {
  ObservedRequest observed;
  KVIST_TRY(const std::string_view outcome, object.require_string("outcome"));
  observed.completed = outcome == "completed";
  KVIST_TRY(const std::string_view mode, object.require_string("mode"));
  auto parsed = spec::parse_routing_mode(mode);
  if (!parsed) return object.wrong("mode", parsed.error().message);
  observed.mode = *parsed;
  KVIST_TRY(const std::optional<std::string_view> worker, object.find_string("worker"));
  observed.worker = worker.value_or("");
  // A client may leave, or its time be over, while its request is held at the gateway.
  line.reached_worker = reached_worker(outcome) && !observed.worker.empty();
  KVIST_TRY(observed.ttft_ms, object.find_double("ttft_ms", 0, kMaxMilliseconds));
  KVIST_TRY(observed.tpot_ms, object.find_double("tpot_ms", 0, kMaxMilliseconds));
  KVIST_TRY(observed.latency_ms, object.require_double("latency_ms", 0, kMaxMilliseconds));
  KVIST_TRY(const std::optional<std::uint64_t> cached, object.find_unsigned("cached_tokens", 0, kMaxTokens));
  if (cached) observed.cached_tokens = static_cast<std::uint32_t>(*cached);
  line.observed = std::move(observed);
  return {};
}

}  // namespace

TraceLineParser::TraceLineParser(std::string name, const TraceLimits& limits)
    : name_(std::move(name)), limits_(limits), document_(rules(limits)) {}

std::unexpected<Error> TraceLineParser::invalid(std::size_t line, const std::string& what) const {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", name_, line, what));
}

Error TraceLineParser::at_line(Error error) const {
  return std::move(error).in(fmt::format("{}:{}", name_, line_));
}

Result<std::optional<TraceLine>> TraceLineParser::parse(std::string_view text) {
  ++line_;
  if (text.size() > limits_.line_bytes) {
    return invalid(line_, fmt::format("longer than {} bytes; a trace has one request per line", limits_.line_bytes));
  }
  if (text.find_first_not_of(" \t\r") == std::string_view::npos) return std::nullopt;
  if (requests_++ >= limits_.requests) {
    return invalid(line_, fmt::format("more than {} requests; cut the trace", limits_.requests));
  }
  Result<TraceLine> line = read_line(text);
  if (!line) return std::unexpected(at_line(std::move(line).error()));
  return *std::move(line);
}

Result<TraceLine> TraceLineParser::read_line(std::string_view text) {
  KVIST_TRY(const JsonObject object, document_.parse_object(text));
  TraceLine line{.number = line_, .request = {}};
  if (!is_record_) {
    KVIST_TRY(dialect_, dialect_of(object, dialect_));
  }
  const bool is_bailian = dialect_ == TraceDialect::kBailian;
  KVIST_TRY_VOID(read_time(object, is_bailian, line));
  KVIST_TRY_VOID(read_links(object, is_bailian, line));
  if (!line.has_timestamp && ((!line.session && !line.follows) || line.chat)) {
    KVIST_TRY_VOID(object.require("timestamp"));
  }
  if (is_record_) KVIST_TRY_VOID(read_observed(object, line));
  // What reached no worker may have been refused before anybody knew its length.
  KVIST_TRY(line.request.input_tokens, require_tokens(object, "input_length", line.reached_worker ? 1 : 0));
  KVIST_TRY(line.request.output_tokens, require_tokens(object, "output_length", 0));
  KVIST_TRY(line.request.hash_ids, hash_ids(object));
  return line;
}

Result<std::vector<std::uint64_t>> TraceLineParser::hash_ids(const JsonObject& object) {
  // Where nothing is known of what prompts share, no row has ids.
  if (!object.has("hash_ids") && !has_ids_ && dialect_ == TraceDialect::kMooncake) return std::vector<std::uint64_t>();
  KVIST_TRY(const JsonArray list, object.require_array("hash_ids", "an array of whole numbers from 0"));
  has_ids_ = true;
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

Result<RecordHead> TraceLineParser::parse_head(std::string_view text) {
  ++line_;
  Result<RecordHead> head = read_head(text);
  if (!head) return std::unexpected(at_line(std::move(head).error()));
  is_record_ = true;
  return head;
}

Result<RecordHead> TraceLineParser::read_head(std::string_view text) {
  KVIST_TRY(const JsonObject object, document_.parse_object(text));
  KVIST_TRY(const std::uint64_t version, object.require_unsigned("kvist_record", 0, kMaxTokens));
  if (version != 1) {
    return object.wrong("kvist_record", fmt::format("version {}; this program reads version 1", version));
  }
  RecordHead head;
  KVIST_TRY(head.recording, object.require_unsigned("recording", 0, ~std::uint64_t{0}));
  KVIST_TRY(head.part, object.require_unsigned("part", 0, ~std::uint64_t{0}));
  KVIST_TRY(const std::string_view model, object.require_string("model"));
  head.model = model;
  KVIST_TRY(const std::uint64_t tokens_per_hash, object.require_unsigned("tokens_per_hash", 1, kMaxTokensPerHash));
  head.tokens_per_hash = static_cast<std::uint32_t>(tokens_per_hash);
  KVIST_TRY(const JsonArray workers, object.require_array("workers", "an array of names"));
  for (const JsonValue worker : workers) {
    KVIST_TRY(const std::string_view name, worker.as_string());
    head.workers.emplace_back(name);
  }
  return head;
}

}  // namespace kvist::workload

#include "kvist/workload/dynamo_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/workload/text_lines.h"
#include "kvist/workload/trace_fields.h"
#include "kvist/workload/trace_line.h"
#include "kvist/workload/trace_links.h"

namespace kvist::workload {
namespace {

constexpr std::string_view kSchema = "dynamo.request.trace.v1";
constexpr std::uint64_t kMaxUnixMs = 4'000'000'000'000;  // of the year 2096
constexpr std::size_t kRowDepth = 16;
constexpr Duration kInstantRounding = std::chrono::milliseconds(1);  // request_received_ms is whole

/// The worker that gave the tokens, and whether another one computed the prompt.
struct WorkerField {
  std::string name = {};
  bool prefilled_elsewhere = false;
};

Result<std::optional<WorkerField>> find_worker(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonObject> worker, request.find_object("worker"));
  if (!worker) return std::nullopt;
  const auto read = [&](std::string_view id, std::string_view rank) -> Result<std::string> {
    KVIST_TRY(const std::optional<std::uint64_t> number, worker->find_unsigned(id, 0, ~std::uint64_t{0}));
    KVIST_TRY(const std::optional<std::uint64_t> of_id, worker->find_unsigned(rank, 0, ~std::uint32_t{0}));
    if (!number) return std::string();
    return of_id.value_or(0) == 0 ? fmt::to_string(*number) : fmt::format("{}:{}", *number, *of_id);
  };
  KVIST_TRY(std::string decode, read("decode_worker_id", "decode_dp_rank"));
  KVIST_TRY(std::string prefill, read("prefill_worker_id", "prefill_dp_rank"));
  if (decode.empty() && prefill.empty()) return std::nullopt;
  const bool elsewhere = !decode.empty() && !prefill.empty() && decode != prefill;
  return WorkerField{.name = decode.empty() ? std::move(prefill) : std::move(decode), .prefilled_elsewhere = elsewhere};
}

/// Why the answer ended, where it is told; "stop" where it is not.
Result<std::string_view> finish_reason(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonObject> metadata, request.find_object("finish_reason_metadata"));
  if (!metadata) return "stop";
  KVIST_TRY(const std::optional<std::string_view> reason, metadata->find_string("finish_reason"));
  return reason.value_or("stop");
}

/// Whether a row has the texts of a request, which may be longer than rows that are read.
bool is_payload(std::string_view row) {
  return row.substr(0, kHeadBytes).find(R"("event_type":"request_payload")") != std::string_view::npos;
}

/// Reads the files of one trace, one after the other.
class DynamoTraceReader {
 public:
  explicit DynamoTraceReader(const TraceLimits& limits)
      : limits_(limits),
        document_({.wrong = ErrorCode::kInvalidArgument, .most_bytes = limits.line_bytes, .most_depth = kRowDepth}) {}

  template <class Read>
  Result<void> add_file(const std::string& name, const Read& read) {
    line_ = 0;
    passes_over_ = false;  // the file before may have ended within a row
    return read([&](std::string_view text, bool ended) -> Result<void> {
      if (std::exchange(passes_over_, passes_over_ && !ended)) return {};
      ++line_;
      if (text.size() > limits_.line_bytes && is_payload(text)) {
        passes_over_ = !ended;
        return {};
      }
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) return {};
      auto added = add_row(text);
      // The last row of a writer that was stopped.
      if (!added && !ended && text.size() <= limits_.line_bytes && !text.ends_with('}')) return {};
      if (!added) return std::unexpected(std::move(added).error().in(fmt::format("{}:{}", name, line_)));
      return {};
    });
  }

  Result<RecordedTraffic> finish(const std::string& name) {
    Duration first = Duration::max();
    for (const TraceLine& line : lines_) first = std::min(first, line.request.at);
    for (TraceLine& line : lines_) line.request.at -= first;
    head_.workers.assign(workers_.begin(), workers_.end());
    RecordedTraffic traffic = linked_record(std::move(head_), std::move(lines_), kInstantRounding);
    traffic.tells_modes = false;
    traffic.prefilled_elsewhere = prefilled_elsewhere_;
    if (!traffic.trace.requests.empty()) return traffic;
    return fail(ErrorCode::kInvalidArgument, name + ": holds no request_end of a request that a worker answered");
  }

 private:
  Result<void> add_row(std::string_view text) {
    KVIST_TRY(const JsonObject row, document_.parse_object(text));
    KVIST_TRY(const std::optional<JsonObject> wrapped, row.find_object("event"));
    const JsonObject& event = wrapped ? *wrapped : row;
    KVIST_TRY(const std::string_view type, event.require_string("event_type"));
    if (type == "request_payload" || type.starts_with("tool_")) return {};
    if (type != "request_end") return event.wrong("event_type", "expected request_end, request_payload or tool_...");
    KVIST_TRY(const std::string_view schema, event.require_string("schema"));
    if (schema != kSchema) return event.wrong("schema", fmt::format("expected {}", kSchema));
    if (lines_.size() >= limits_.requests) {
      return event.value().wrong(fmt::format("more than {} requests; cut the trace", limits_.requests));
    }
    return add_request(event);
  }

  Result<void> add_request(const JsonObject& event) {
    KVIST_TRY(const JsonObject request, event.require_object("request"));
    KVIST_TRY_VOID(check_model(request));
    TraceLine line{.number = line_, .request = {}, .has_timestamp = true};
    KVIST_TRY(const std::uint64_t received, request.require_unsigned("request_received_ms", 0, kMaxUnixMs));
    line.request.at = std::chrono::milliseconds(received);
    KVIST_TRY(const std::optional<std::uint64_t> output, request.find_unsigned("output_tokens", 0, kMaxTokens));
    line.request.output_tokens = static_cast<std::uint32_t>(output.value_or(0));
    KVIST_TRY_VOID(read_prompt(request, line));
    KVIST_TRY(const std::optional<JsonObject> context, event.find_object("agent_context"));
    if (context) {
      KVIST_TRY(line.session, find_name(*context, "session_id"));
    }
    KVIST_TRY_VOID(read_answer(event, request, line));
    lines_.push_back(std::move(line));
    return {};
  }

  Result<void> check_model(const JsonObject& request) {
    KVIST_TRY(const std::optional<std::string_view> model, request.find_string("model"));
    if (!model) return {};
    if (head_.model.empty()) head_.model = *model;
    if (head_.model == *model) return {};
    return request.wrong("model", fmt::format("{} after {}; want the requests of one model alone", in_quotes(*model),
                                              in_quotes(head_.model)));
  }

  Result<void> read_prompt(const JsonObject& request, TraceLine& line) {
    KVIST_TRY(const std::optional<JsonObject> replay, request.find_object("replay"));
    if (!replay) return request.wrong("replay", "required, but missing: without it nobody knows what prompts share");
    KVIST_TRY(const std::uint64_t block_size, replay->require_unsigned("trace_block_size", 1, kMaxTokensPerHash));
    if (head_.tokens_per_hash == 0) head_.tokens_per_hash = static_cast<std::uint32_t>(block_size);
    if (head_.tokens_per_hash != block_size) {
      return replay->wrong("trace_block_size",
                           fmt::format("{} after {}; want one size in a trace", block_size, head_.tokens_per_hash));
    }
    KVIST_TRY(line.request.input_tokens, require_tokens(*replay, "input_length", 1));
    KVIST_TRY(const JsonArray hashes, replay->require_array("input_sequence_hashes", "an array of whole numbers"));
    for (const JsonValue hash : hashes) {
      if (ids_read_++ >= limits_.hash_ids) {
        return hashes.value().wrong(fmt::format("more than {} in all; cut the trace", limits_.hash_ids));
      }
      const std::optional<std::uint64_t> id = hash.if_unsigned();
      if (!id) return hash.expected("a whole number from 0");
      line.request.hash_ids.push_back(*id);
    }
    const std::uint64_t blocks = (line.request.input_tokens + block_size - 1) / block_size;
    if (line.request.hash_ids.size() != blocks) {
      return hashes.value().wrong(fmt::format("{} for an input_length of {}; want {} with a trace_block_size of {}",
                                              line.request.hash_ids.size(), line.request.input_tokens, blocks,
                                              block_size));
    }
    if (line.request.input_tokens % block_size != 0) line.request.hash_ids.pop_back();
    line.request.hash_ids.shrink_to_fit();
    return {};
  }

  Result<void> read_answer(const JsonObject& event, const JsonObject& request, TraceLine& line) {
    ObservedRequest observed{.mode = spec::RoutingMode::kDynamo};
    KVIST_TRY(const std::string_view reason, finish_reason(request));
    KVIST_TRY(observed.ttft_ms, request.find_double("ttft_ms", 0, kMaxMilliseconds));
    KVIST_TRY(observed.tpot_ms, request.find_double("avg_itl_ms", 0, kMaxMilliseconds));
    observed.completed =
        observed.ttft_ms && line.request.output_tokens > 0 && reason != "error" && reason != "cancelled";
    KVIST_TRY(const std::optional<double> latency, request.find_double("total_time_ms", 0, kMaxMilliseconds));
    KVIST_TRY(const std::uint64_t ended, event.require_unsigned("event_time_unix_ms", 0, kMaxUnixMs));
    const double passed_ms = to_milliseconds(std::chrono::milliseconds(ended) - line.request.at);
    observed.latency_ms = latency.value_or(std::max(0.0, passed_ms));
    KVIST_TRY(const std::optional<std::uint64_t> cached, request.find_unsigned("cached_tokens", 0, kMaxTokens));
    if (cached) observed.cached_tokens = static_cast<std::uint32_t>(*cached);
    KVIST_TRY(const std::optional<WorkerField> worker, find_worker(request));
    line.reached_worker = worker || line.request.output_tokens > 0;
    if (worker) {
      observed.worker = worker->name;
      workers_.insert(worker->name);
      prefilled_elsewhere_ += worker->prefilled_elsewhere ? 1 : 0;
    }
    line.observed = std::move(observed);
    return {};
  }

  const TraceLimits limits_;
  JsonDocument document_;
  RecordHead head_;
  std::vector<TraceLine> lines_;
  std::set<std::string> workers_;
  std::size_t prefilled_elsewhere_ = 0;
  std::size_t ids_read_ = 0;
  std::size_t line_ = 0;      // of the file, from 1
  bool passes_over_ = false;  // the rest of a row
};

/// The name of the segment after this one; nothing where this one's is not numbered.
std::optional<std::string> next_segment(const std::string& path) {
  constexpr std::size_t kDigits = 6;
  for (const std::string_view ending : {".jsonl", ".jsonl.gz"}) {
    if (!path.ends_with(ending) || path.size() < ending.size() + kDigits + 1) continue;
    const std::size_t at = path.size() - ending.size() - kDigits;
    const std::string_view digits = std::string_view(path).substr(at, kDigits);
    if (path[at - 1] != '.' || digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
    std::uint32_t number = 0;
    for (const char digit : digits) number = number * 10 + static_cast<std::uint32_t>(digit - '0');
    return fmt::format("{}{:06}{}", path.substr(0, at), number + 1, ending);
  }
  return std::nullopt;
}

}  // namespace

bool is_dynamo_trace(std::string_view first_line) {
  // A row with the texts of a request comes before that of its end, and has no schema in some versions.
  return first_line.find(kSchema) != std::string_view::npos || is_payload(first_line);
}

Result<RecordedTraffic> parse_dynamo_trace(std::string_view text, const std::string& name, const TraceLimits& limits) {
  DynamoTraceReader reader(limits);
  KVIST_TRY_VOID(reader.add_file(name, [&](const OnLine& on_line) { return for_each_line(text, on_line); }));
  return reader.finish(name);
}

Result<RecordedTraffic> load_dynamo_trace(const std::string& path, const TraceLimits& limits) {
  DynamoTraceReader reader(limits);
  for (std::optional<std::string> file = path; file; file = next_segment(*file)) {
    std::error_code error;
    if (*file != path && !std::filesystem::is_regular_file(*file, error)) break;
    KVIST_TRY_VOID(reader.add_file(
        *file, [&](const OnLine& on_line) { return for_each_line_of_file(*file, limits.line_bytes, on_line); }));
  }
  return reader.finish(path);
}

}  // namespace kvist::workload

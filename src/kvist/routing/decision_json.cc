#include "kvist/routing/decision_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/routing/decision_fields.h"

namespace kvist::routing {
namespace {

constexpr std::size_t kDepth = 16;
constexpr std::uint32_t kMaxBlockSize = 1U << 20;
constexpr std::size_t kMaxNameBytes = 1'024;
constexpr double kMaxTerm = 1e15;
// The longest duration that is accepted, in seconds. It stays about ten years below the range of Duration, which is 64
// bits of nanoseconds.
constexpr double kMaxSeconds = 9e9;

// Written as text, because most readers of JSON round numbers beyond 2^53.
std::string hex(std::uint64_t number) {
  return fmt::format("{:016x}", number);
}

void write_optional_ms(JsonWriter& json, std::string_view name, const std::optional<Duration>& time) {
  json.key(name);
  if (time) {
    json.value(to_milliseconds(*time));
  } else {
    json.null();
  }
}

void write_candidate(JsonWriter& json, const Candidate& candidate, std::span<const std::string> names) {
  const auto write = [&](std::string_view name, const auto& value) { json.field(name, value); };
  json.begin_object().field("worker", candidate.worker.value());
  if (candidate.worker.value() < names.size()) json.field("name", names[candidate.worker.value()]);
  json.field("cost", candidate.cost).field("trust", to_string(candidate.trust));
  visit_candidate(candidate, write);
  json.key("load").begin_object();
  visit_load(candidate.load, write);
  json.end_object().key("limits").begin_object();
  visit_limits(candidate.limits, write);
  json.end_object().key("forecast").begin_object();
  visit_forecast(candidate.forecast, write);
  json.end_object().end_object();
}

void write_fleet(JsonWriter& json, const FoundFleet& fleet) {
  json.key("fleet").begin_object().field("waiting", fleet.waiting).field("any_room", fleet.any_room);
  json.field("cached_tokens", fleet.cached_tokens).end_object();
}

void write_after(JsonWriter& json, const Aftermath& after) {
  json.key("after").begin_object().field("state", to_string(after.state));
  write_optional_ms(json, "ttft_ms", after.ttft);
  json.key("cached_tokens");
  if (after.cached_tokens) {
    json.value(*after.cached_tokens);
  } else {
    json.null();
  }
  json.field("output_tokens", after.output_tokens);
  write_optional_ms(json, "duration_ms", after.duration);
  if (!after.failure.empty()) json.field("failure", after.failure);
  json.end_object();
}

std::optional<std::uint64_t> parse_hex(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.size() > 16) return std::nullopt;
  return number;
}

Result<std::string_view> read_text(const JsonObject& from, std::string_view key) {
  KVIST_TRY(const JsonValue value, from.require(key));
  const std::optional<std::string_view> text = value.if_string();
  if (!text || text->size() > kMaxNameBytes) return value.expected("a short text");
  return *text;
}

Result<std::uint64_t> read_hex(const JsonObject& from, std::string_view key) {
  KVIST_TRY(const JsonValue value, from.require(key));
  const std::optional<std::string_view> digits = value.if_string();
  const std::optional<std::uint64_t> number = digits ? parse_hex(*digits) : std::nullopt;
  if (!number) return value.expected("a number of 16 hexadecimal digits, as a text");
  return *number;
}

template <class Enum, std::size_t N>
Result<Enum> read_one_of(const JsonObject& from, std::string_view key, const std::array<Enum, N>& values) {
  KVIST_TRY(const std::string_view name, read_text(from, key));
  const auto found = std::ranges::find_if(values, [&](Enum value) { return to_string(value) == name; });
  if (found != values.end()) return *found;
  std::string known;
  for (const Enum value : values) known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(value));
  return from.wrong(key, "expected one of " + known);
}

// The overloads follow the type of the field. Numbers that policies compute with are bounded, so that no sum of them
// becomes infinite.
Result<void> read(const JsonObject& from, std::string_view key, double& value) {
  KVIST_TRY(value, from.require_double(key, -kMaxTerm, kMaxTerm));
  return {};
}

Result<void> read(const JsonObject& from, std::string_view key, bool& value) {
  KVIST_TRY(value, from.require_bool(key));
  return {};
}

template <std::unsigned_integral Number>
Result<void> read_number(const JsonObject& from, std::string_view key, Number& value, std::uint64_t most) {
  KVIST_TRY(const std::uint64_t number, from.require_unsigned(key, 0, most));
  value = static_cast<Number>(number);
  return {};
}

template <std::unsigned_integral Number>
Result<void> read(const JsonObject& from, std::string_view key, Number& value) {
  return read_number(from, key, value, std::numeric_limits<Number>::max());
}

// Fields of a candidate that the format did not have from the beginning. A record without one is of a policy without
// that term.
constexpr auto kLaterFields = std::to_array<std::string_view>(
    {"lost_tokens", "fleet_prefill_ms", "displaced_ms", "held_up_ms", "known", "lower_tier_blocks", "affinity_ms"});

// A visitor for visit_*() that reads every field and keeps the first error.
class FieldReader {
 public:
  FieldReader(const JsonObject& from, Result<void>& result) : from_(&from), result_(&result) {}
  template <class Value>
  void operator()(std::string_view name, Value& value) const {
    if (!*result_) return;
    if (std::ranges::find(kLaterFields, name) != kLaterFields.end() && !from_->peek(name)) return;
    *result_ = read(*from_, name, value);
  }

 private:
  const JsonObject* from_;
  Result<void>* result_;
};

Result<std::optional<Duration>> read_optional_ms(const JsonObject& from, std::string_view key) {
  KVIST_TRY(const JsonValue value, from.require_or_null(key));
  if (value.is_null()) return std::optional<Duration>();
  KVIST_TRY(const double ms, value.as_double(0, kMaxSeconds * 1e3));
  return std::optional(from_milliseconds(ms));
}

constexpr std::array kTrusts = {CacheTrust::kNone, CacheTrust::kPredicted, CacheTrust::kExact};

// Null stands for infinity, which JSON cannot express.
Result<double> read_cost(const JsonObject& from) {
  KVIST_TRY(const JsonValue value, from.require_or_null("cost"));
  if (value.is_null()) return std::numeric_limits<double>::infinity();
  const std::optional<double> cost = value.if_double();
  if (!cost) return value.expected("a number or null");
  return *cost;
}

Result<Candidate> read_candidate(const JsonObject& from) {
  Candidate candidate;
  std::uint32_t worker = 0;
  KVIST_TRY_VOID(read_number(from, "worker", worker, kMaxDecisionWorkers - 1));
  candidate.worker = WorkerId(worker);
  KVIST_TRY(candidate.cost, read_cost(from));
  KVIST_TRY(candidate.trust, read_one_of(from, "trust", kTrusts));
  KVIST_TRY(const JsonObject load, from.require_object("load"));
  KVIST_TRY(const JsonObject limits, from.require_object("limits"));
  KVIST_TRY(const JsonObject forecast, from.require_object("forecast"));
  Result<void> result;
  visit_candidate(candidate, FieldReader(from, result));
  visit_load(candidate.load, FieldReader(load, result));
  visit_limits(candidate.limits, FieldReader(limits, result));
  visit_forecast(candidate.forecast, FieldReader(forecast, result));
  if (!result) return std::unexpected(std::move(result).error());
  return candidate;
}

Result<Aftermath> read_after(const JsonObject& from) {
  Aftermath after;
  KVIST_TRY(after.state, read_one_of(from, "state", kAttemptStates));
  KVIST_TRY(after.ttft, read_optional_ms(from, "ttft_ms"));
  KVIST_TRY(after.duration, read_optional_ms(from, "duration_ms"));
  KVIST_TRY_VOID(read(from, "output_tokens", after.output_tokens));
  KVIST_TRY_VOID(from.require_or_null("cached_tokens"));
  KVIST_TRY(after.cached_tokens, from.find_unsigned("cached_tokens", 0, std::numeric_limits<std::uint64_t>::max()));
  if (const std::optional<JsonValue> failure = from.peek("failure")) {
    const std::optional<std::string_view> text = failure->if_string();
    if (!text || text->size() > kMaxNameBytes) return from.wrong("failure", "expected a short text");
    after.failure = *text;
  }
  return after;
}

void keep_name(const JsonObject& candidate, WorkerId worker, std::vector<std::string>& names) {
  const std::optional<JsonValue> value = candidate.peek("name");
  const std::optional<std::string_view> name = value ? value->if_string() : std::nullopt;
  if (!name || name->size() > kMaxNameBytes) return;
  if (names.size() <= worker.value()) names.resize(worker.value() + 1);
  names[worker.value()] = *name;
}

Result<void> read_candidates(const JsonObject& from, DecisionRecord& record, std::vector<std::string>& names) {
  KVIST_TRY(const JsonArray array, from.require_array("candidates"));
  for (const JsonValue value : array) {
    KVIST_TRY(const JsonObject object, value.as_object());
    KVIST_TRY(const Candidate candidate, read_candidate(object));
    if (!record.candidates.empty() && candidate.worker <= record.candidates.back().worker) {
      return object.wrong("worker", "expected candidates in ascending order of worker");
    }
    if (candidate.cached_tokens > record.prompt_tokens) {
      return object.wrong("cached_tokens",
                          fmt::format("expected at most the prompt's {} tokens", record.prompt_tokens));
    }
    keep_name(object, candidate.worker, names);
    record.candidates.push_back(candidate);
  }
  if (record.candidates.empty()) return from.wrong("candidates", "expected at least one");
  return {};
}

Result<void> read_blocks(const JsonObject& from, DecisionRecord& record) {
  KVIST_TRY(const JsonArray blocks, from.require_array("first_blocks"));
  for (const JsonValue value : blocks) {
    const std::optional<std::string_view> digits = value.if_string();
    const auto name = digits ? parse_hex(*digits) : std::nullopt;
    if (!name || record.first_blocks.size() == kPolicyBlocks) {
      return value.wrong(fmt::format("expected at most {} names of 16 hexadecimal digits", kPolicyBlocks));
    }
    record.first_blocks.emplace_back(*name);
  }
  return {};
}

Result<void> read_workers(const JsonObject& from, std::string_view key, std::vector<WorkerId>& workers) {
  KVIST_TRY(const JsonArray array, from.require_array(key));
  for (const JsonValue value : array) {
    KVIST_TRY(const std::uint64_t worker, value.as_unsigned(0, kMaxDecisionWorkers - 1));
    workers.emplace_back(static_cast<std::uint32_t>(worker));
  }
  return {};
}

// What only some decisions have.
Result<void> read_circumstances(const JsonObject& from, DecisionRecord& record) {
  for (const auto& [key, value] :
       {std::pair{"in_transit", &record.in_transit}, std::pair{"recomputed", &record.recomputed},
        std::pair{"mean_waiting", &record.mean_waiting}}) {
    if (!from.peek(key)) continue;
    KVIST_TRY_VOID(read(from, key, *value));
    if (!(*value >= 0)) return from.wrong(key, "expected a number from 0 on");
  }
  if (from.peek("ttft_weight")) {
    KVIST_TRY_VOID(read(from, "ttft_weight", record.ttft_weight));
    if (!(record.ttft_weight > 0)) return from.wrong("ttft_weight", "expected a number above 0");
  }
  if (from.peek("adapter")) {
    KVIST_TRY(record.adapter, read_text(from, "adapter"));
  }
  if (from.peek("session_worker")) {
    std::uint32_t worker = 0;
    KVIST_TRY_VOID(read_number(from, "session_worker", worker, kMaxDecisionWorkers - 1));
    record.session_worker = WorkerId(worker);
  }
  if (from.peek("held_back")) KVIST_TRY_VOID(read_workers(from, "held_back", record.held_back));
  return {};
}

// Older records of some of the candidates do not have it.
Result<void> read_fleet(const JsonObject& from, DecisionRecord& record) {
  if (!from.peek("fleet")) return {};
  KVIST_TRY(const JsonObject object, from.require_object("fleet"));
  FoundFleet& fleet = record.fleet.emplace();
  KVIST_TRY_VOID(read(object, "waiting", fleet.waiting));
  if (!(fleet.waiting >= 0)) return object.wrong("waiting", "expected a number from 0 on");
  KVIST_TRY_VOID(read(object, "any_room", fleet.any_room));
  return read(object, "cached_tokens", fleet.cached_tokens);
}

Result<DecisionRecord> read_decision(const JsonObject& from, std::vector<std::string>& names) {
  DecisionRecord record;
  std::uint64_t request = 0;
  double at = 0;
  KVIST_TRY_VOID(read(from, "number", record.number));
  KVIST_TRY_VOID(read(from, "internal_id", request));
  record.request = RequestId(request);
  KVIST_TRY(record.name, read_text(from, "request"));
  KVIST_TRY_VOID(read(from, "at_s", at));
  if (!(at >= 0 && at <= kMaxSeconds)) return from.wrong("at_s", "expected seconds from 0");
  record.at = TimePoint(from_seconds(at));
  KVIST_TRY(record.mode, read_one_of(from, "mode", spec::kRoutingModes));
  KVIST_TRY(record.seed, read_hex(from, "seed"));
  KVIST_TRY(record.policy_state, read_hex(from, "policy_state"));
  KVIST_TRY_VOID(read(from, "prompt_tokens", record.prompt_tokens));
  KVIST_TRY_VOID(read(from, "prompt_blocks", record.prompt_blocks));
  KVIST_TRY_VOID(read_number(from, "block_size", record.block_size, kMaxBlockSize));
  if (record.block_size == 0) return from.wrong("block_size", "expected at least one token");
  KVIST_TRY(record.session, read_hex(from, "session"));
  KVIST_TRY_VOID(read_blocks(from, record));
  KVIST_TRY_VOID(read_workers(from, "excluded", record.excluded));
  KVIST_TRY_VOID(read_circumstances(from, record));
  KVIST_TRY_VOID(read(from, "left_out", record.left_out));
  KVIST_TRY_VOID(read_fleet(from, record));
  KVIST_TRY_VOID(read_candidates(from, record, names));
  std::uint32_t chosen = 0;
  KVIST_TRY_VOID(read(from, "chosen", chosen));
  record.chosen = WorkerId(chosen);
  if (position_of(record.candidates, record.chosen) == record.candidates.size()) {
    return from.wrong("chosen", "expected the worker of a candidate");
  }
  KVIST_TRY(record.reason, read_one_of(from, "reason", kDecisionReasons));
  KVIST_TRY(const JsonObject after, from.require_object("after"));
  KVIST_TRY(record.after, read_after(after));
  return record;
}

}  // namespace

void write_decision(JsonWriter& json, const DecisionRecord& record, std::span<const std::string> worker_names) {
  json.begin_object();
  json.field("request", record.name).field("internal_id", record.request.value()).field("number", record.number);
  json.field("at_s", to_seconds(record.at.time_since_epoch())).field("mode", to_string(record.mode));
  json.field("chosen", record.chosen.value());
  if (record.chosen.value() < worker_names.size()) json.field("chosen_name", worker_names[record.chosen.value()]);
  json.field("reason", to_string(record.reason));
  json.field("prompt_tokens", record.prompt_tokens).field("prompt_blocks", record.prompt_blocks);
  json.field("block_size", record.block_size).field("session", hex(record.session));
  json.field("seed", hex(record.seed)).field("policy_state", hex(record.policy_state));
  json.key("first_blocks").begin_array();
  for (const kv::BlockHash block : record.first_blocks) json.value(hex(block.value()));
  json.end_array().key("excluded").begin_array();
  for (const WorkerId worker : record.excluded) json.value(worker.value());
  json.end_array();
  if (record.ttft_weight != 1) json.field("ttft_weight", record.ttft_weight);
  if (record.in_transit != 0) json.field("in_transit", record.in_transit);
  if (record.recomputed != 0) json.field("recomputed", record.recomputed);
  if (record.mean_waiting != 0) json.field("mean_waiting", record.mean_waiting);
  if (!record.adapter.empty()) json.field("adapter", record.adapter);
  if (record.session_worker) json.field("session_worker", record.session_worker->value());
  if (!record.held_back.empty()) {
    json.key("held_back").begin_array();
    for (const WorkerId worker : record.held_back) json.value(worker.value());
    json.end_array();
  }
  write_after(json, record.after);
  if (record.fleet) write_fleet(json, *record.fleet);
  json.field("left_out", record.left_out).key("candidates").begin_array();
  for (const Candidate& candidate : record.candidates) write_candidate(json, candidate, worker_names);
  json.end_array().end_object();
}

Result<DecisionFile> read_decisions(std::string_view json) {
  JsonDocument document({.most_bytes = kMaxDecisionsBytes, .most_depth = kDepth});
  KVIST_TRY(const JsonObject root, document.parse_object(json));
  KVIST_TRY(const std::string_view format, read_text(root, "format"));
  if (format != kDecisionsFormat) return root.wrong("format", fmt::format("expected \"{}\"", kDecisionsFormat));
  KVIST_TRY(const JsonArray decisions, root.require_array("decisions"));
  DecisionFile file;
  for (const JsonValue value : decisions) {
    KVIST_TRY(const JsonObject decision, value.as_object());
    KVIST_TRY(DecisionRecord record, read_decision(decision, file.worker_names));
    file.decisions.push_back(std::move(record));
  }
  return file;
}

}  // namespace kvist::routing

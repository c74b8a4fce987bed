#include "kvist/routing/decision_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "kvist/routing/decision_fields.h"

namespace kvist::routing {
namespace {

using simdjson::SUCCESS;
using Element = simdjson::dom::element;
using Object = simdjson::dom::object;

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
  json.end_object();
}

/// Reads one JSON object field by field. Errors name the path of the field.
class Reader {
 public:
  Reader(Object object, std::string path) : object_(object), path_(std::move(path)) {}

  [[nodiscard]] static Result<Reader> of(Element element, std::string path) {
    Object object;
    if (element.get(object) != SUCCESS) return fail(ErrorCode::kCorrupt, path + ": expected an object");
    return Reader(object, std::move(path));
  }

  [[nodiscard]] std::string path_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view key, std::string_view expected) const {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: expected {}", path_of(key), expected));
  }

  [[nodiscard]] Result<Element> require(std::string_view key) const {
    Element element;
    if (object_.at_key(key).get(element) != SUCCESS) {
      return fail(ErrorCode::kCorrupt, path_of(key) + ": missing");
    }
    return element;
  }
  [[nodiscard]] Result<Reader> object(std::string_view key) const {
    KVIST_TRY(const Element element, require(key));
    return of(element, path_of(key));
  }
  [[nodiscard]] Result<simdjson::dom::array> array(std::string_view key) const {
    KVIST_TRY(const Element element, require(key));
    simdjson::dom::array array;
    if (element.get(array) != SUCCESS) return wrong(key, "an array");
    return array;
  }
  [[nodiscard]] Result<std::string_view> text(std::string_view key) const {
    KVIST_TRY(const Element element, require(key));
    std::string_view text;
    if (element.get(text) != SUCCESS || text.size() > kMaxNameBytes) return wrong(key, "a short text");
    return text;
  }
  [[nodiscard]] Result<std::uint64_t> hex_number(std::string_view key) const {
    KVIST_TRY(const std::string_view digits, text(key));
    const auto number = parse_hex(digits);
    if (!number) return wrong(key, "a number of 16 hexadecimal digits, as a text");
    return *number;
  }

  // The overloads follow the type of the field. Numbers that policies compute with are bounded, so that no sum of them
  // becomes infinite.
  [[nodiscard]] Result<void> read(std::string_view key, double& value) const {
    KVIST_TRY(const Element element, require(key));
    if (element.get(value) != SUCCESS || !(std::abs(value) <= kMaxTerm)) {
      return wrong(key, fmt::format("a number from {:g} to {:g}", -kMaxTerm, kMaxTerm));
    }
    return {};
  }
  [[nodiscard]] Result<void> read(std::string_view key, bool& value) const {
    KVIST_TRY(const Element element, require(key));
    if (element.get(value) != SUCCESS) return wrong(key, "true or false");
    return {};
  }
  template <std::unsigned_integral Number>
  [[nodiscard]] Result<void> read(std::string_view key, Number& value) const {
    return read_number(key, value, std::numeric_limits<Number>::max());
  }
  template <std::unsigned_integral Number>
  [[nodiscard]] Result<void> read_number(std::string_view key, Number& value, std::uint64_t most) const {
    KVIST_TRY(const Element element, require(key));
    std::uint64_t number = 0;
    if (element.get(number) != SUCCESS || number > most) {
      return wrong(key, fmt::format("a whole number from 0 to {}", most));
    }
    value = static_cast<Number>(number);
    return {};
  }

  template <class Enum, std::size_t N>
  [[nodiscard]] Result<Enum> one_of(std::string_view key, const std::array<Enum, N>& values) const {
    KVIST_TRY(const std::string_view name, text(key));
    const auto found = std::ranges::find_if(values, [&](Enum value) { return to_string(value) == name; });
    if (found != values.end()) return *found;
    std::string known;
    for (const Enum value : values) known += fmt::format("{}{}", known.empty() ? "" : ", ", to_string(value));
    return wrong(key, "one of " + known);
  }

  [[nodiscard]] static std::optional<std::uint64_t> parse_hex(std::string_view digits) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    if (error != std::errc() || end != digits.data() + digits.size() || digits.size() > 16) return std::nullopt;
    return number;
  }

 private:
  Object object_;
  std::string path_;
};

// A visitor for visit_*() that reads every field and keeps the first error.
class FieldReader {
 public:
  FieldReader(const Reader& from, Result<void>& result) : from_(&from), result_(&result) {}
  template <class Value>
  void operator()(std::string_view name, Value& value) const {
    if (*result_) *result_ = from_->read(name, value);
  }

 private:
  const Reader* from_;
  Result<void>* result_;
};

Result<std::optional<Duration>> read_optional_ms(const Reader& from, std::string_view key) {
  KVIST_TRY(const Element element, from.require(key));
  if (element.is_null()) return std::optional<Duration>();
  double ms = 0;
  if (element.get(ms) != SUCCESS || !(ms >= 0 && ms <= kMaxSeconds * 1e3)) {
    return from.wrong(key, "milliseconds from 0, or null");
  }
  return std::optional(from_milliseconds(ms));
}

constexpr std::array kTrusts = {CacheTrust::kNone, CacheTrust::kPredicted, CacheTrust::kExact};

// Null stands for infinity, which JSON cannot express.
Result<double> read_cost(const Reader& from) {
  KVIST_TRY(const Element element, from.require("cost"));
  if (element.is_null()) return std::numeric_limits<double>::infinity();
  double cost = 0;
  if (element.get(cost) != SUCCESS) return from.wrong("cost", "a number or null");
  return cost;
}

Result<Candidate> read_candidate(const Reader& from) {
  Candidate candidate;
  std::uint32_t worker = 0;
  KVIST_TRY_VOID(from.read_number("worker", worker, kMaxDecisionWorkers - 1));
  candidate.worker = WorkerId(worker);
  KVIST_TRY(candidate.cost, read_cost(from));
  KVIST_TRY(candidate.trust, from.one_of("trust", kTrusts));
  KVIST_TRY(const Reader load, from.object("load"));
  KVIST_TRY(const Reader limits, from.object("limits"));
  KVIST_TRY(const Reader forecast, from.object("forecast"));
  Result<void> result;
  visit_candidate(candidate, FieldReader(from, result));
  visit_load(candidate.load, FieldReader(load, result));
  visit_limits(candidate.limits, FieldReader(limits, result));
  visit_forecast(candidate.forecast, FieldReader(forecast, result));
  if (!result) return std::unexpected(std::move(result).error());
  return candidate;
}

Result<Aftermath> read_after(const Reader& from) {
  Aftermath after;
  KVIST_TRY(after.state, from.one_of("state", kAttemptStates));
  KVIST_TRY(after.ttft, read_optional_ms(from, "ttft_ms"));
  KVIST_TRY(after.duration, read_optional_ms(from, "duration_ms"));
  KVIST_TRY_VOID(from.read("output_tokens", after.output_tokens));
  KVIST_TRY(const Element cached, from.require("cached_tokens"));
  if (!cached.is_null()) {
    std::uint64_t tokens = 0;
    KVIST_TRY_VOID(from.read("cached_tokens", tokens));
    after.cached_tokens = tokens;
  }
  return after;
}

void keep_name(Element candidate, WorkerId worker, std::vector<std::string>& names) {
  std::string_view name;
  if (candidate["name"].get(name) != SUCCESS || name.size() > kMaxNameBytes) return;
  if (names.size() <= worker.value()) names.resize(worker.value() + 1);
  names[worker.value()] = name;
}

Result<void> read_candidates(const Reader& from, DecisionRecord& record, std::vector<std::string>& names) {
  KVIST_TRY(const simdjson::dom::array array, from.array("candidates"));
  for (const Element element : array) {
    const std::string path = fmt::format("{}[{}]", from.path_of("candidates"), record.candidates.size());
    KVIST_TRY(const Reader reader, Reader::of(element, path));
    KVIST_TRY(const Candidate candidate, read_candidate(reader));
    if (!record.candidates.empty() && candidate.worker <= record.candidates.back().worker) {
      return reader.wrong("worker", "candidates in ascending order of worker");
    }
    if (candidate.cached_tokens > record.prompt_tokens) {
      return reader.wrong("cached_tokens", fmt::format("at most the prompt's {} tokens", record.prompt_tokens));
    }
    keep_name(element, candidate.worker, names);
    record.candidates.push_back(candidate);
  }
  if (record.candidates.empty()) return from.wrong("candidates", "at least one");
  return {};
}

Result<void> read_blocks(const Reader& from, DecisionRecord& record) {
  KVIST_TRY(const simdjson::dom::array blocks, from.array("first_blocks"));
  for (const Element element : blocks) {
    std::string_view digits;
    const bool is_text = element.get(digits) == SUCCESS;
    const auto name = is_text ? Reader::parse_hex(digits) : std::nullopt;
    if (!name || record.first_blocks.size() == kPolicyBlocks) {
      return from.wrong("first_blocks", fmt::format("at most {} names of 16 hexadecimal digits", kPolicyBlocks));
    }
    record.first_blocks.emplace_back(*name);
  }
  return {};
}

Result<void> read_excluded(const Reader& from, DecisionRecord& record) {
  KVIST_TRY(const simdjson::dom::array excluded, from.array("excluded"));
  for (const Element element : excluded) {
    std::uint64_t worker = 0;
    if (element.get(worker) != SUCCESS || worker >= kMaxDecisionWorkers) {
      return from.wrong("excluded", fmt::format("workers below {}", kMaxDecisionWorkers));
    }
    record.excluded.emplace_back(static_cast<std::uint32_t>(worker));
  }
  return {};
}

Result<DecisionRecord> read_decision(const Reader& from, std::vector<std::string>& names) {
  DecisionRecord record;
  std::uint64_t request = 0;
  double at = 0;
  KVIST_TRY_VOID(from.read("number", record.number));
  KVIST_TRY_VOID(from.read("internal_id", request));
  record.request = RequestId(request);
  KVIST_TRY(record.name, from.text("request"));
  KVIST_TRY_VOID(from.read("at_s", at));
  if (!(at >= 0 && at <= kMaxSeconds)) return from.wrong("at_s", "seconds from 0");
  record.at = TimePoint(from_seconds(at));
  KVIST_TRY(record.mode, from.one_of("mode", spec::kRoutingModes));
  KVIST_TRY(record.seed, from.hex_number("seed"));
  KVIST_TRY(record.policy_state, from.hex_number("policy_state"));
  KVIST_TRY_VOID(from.read("prompt_tokens", record.prompt_tokens));
  KVIST_TRY_VOID(from.read("prompt_blocks", record.prompt_blocks));
  KVIST_TRY_VOID(from.read_number("block_size", record.block_size, kMaxBlockSize));
  if (record.block_size == 0) return from.wrong("block_size", "at least one token");
  KVIST_TRY(record.session, from.hex_number("session"));
  KVIST_TRY_VOID(read_blocks(from, record));
  KVIST_TRY_VOID(read_excluded(from, record));
  KVIST_TRY_VOID(from.read("left_out", record.left_out));
  KVIST_TRY_VOID(read_candidates(from, record, names));
  std::uint32_t chosen = 0;
  KVIST_TRY_VOID(from.read("chosen", chosen));
  record.chosen = WorkerId(chosen);
  if (position_of(record.candidates, record.chosen) == record.candidates.size()) {
    return from.wrong("chosen", "the worker of a candidate");
  }
  KVIST_TRY(record.reason, from.one_of("reason", kDecisionReasons));
  KVIST_TRY(const Reader after, from.object("after"));
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
  write_after(json, record.after);
  json.field("left_out", record.left_out).key("candidates").begin_array();
  for (const Candidate& candidate : record.candidates) write_candidate(json, candidate, worker_names);
  json.end_array().end_object();
}

Result<DecisionFile> read_decisions(std::string_view json) {
  if (json.size() > kMaxDecisionsBytes) {
    return fail(ErrorCode::kTooLarge, fmt::format("{} bytes, at most {} are read", json.size(), kMaxDecisionsBytes));
  }
  simdjson::dom::parser parser(kMaxDecisionsBytes + 1);
  if (parser.allocate(std::max(json.size(), std::size_t{64}), kDepth) != SUCCESS) {
    return fail(ErrorCode::kResourceExhausted, "no memory to parse it");
  }
  Element root;
  const simdjson::padded_string text(json);
  if (const auto code = parser.parse(text).get(root); code != SUCCESS) {
    return fail(ErrorCode::kCorrupt, fmt::format("not JSON: {}", simdjson::error_message(code)));
  }
  KVIST_TRY(const Reader reader, Reader::of(root, ""));
  KVIST_TRY(const std::string_view format, reader.text("format"));
  if (format != kDecisionsFormat) return reader.wrong("format", fmt::format("\"{}\"", kDecisionsFormat));
  KVIST_TRY(const simdjson::dom::array decisions, reader.array("decisions"));
  DecisionFile file;
  for (const Element element : decisions) {
    KVIST_TRY(const Reader decision, Reader::of(element, fmt::format("decisions[{}]", file.decisions.size())));
    KVIST_TRY(DecisionRecord record, read_decision(decision, file.worker_names));
    file.decisions.push_back(std::move(record));
  }
  return file;
}

}  // namespace kvist::routing

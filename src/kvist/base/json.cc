#include "kvist/base/json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "kvist/base/utf8.h"

namespace kvist {

struct JsonTape {
  explicit JsonTape(JsonRules read_by) : rules(std::move(read_by)) {}

  JsonRules rules;
  simdjson::dom::parser parser;
};

namespace {

using simdjson::SUCCESS;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::internal::tape_ref;

constexpr std::size_t kRoot = 1;  // position of a document's value on its tape
constexpr std::size_t kLeastCapacity = 4'096;
constexpr std::size_t kQuotedBytes = 60;

tape_ref ref(const JsonTape& tape, std::size_t at) {
  return {&tape.parser.doc, at};
}

// An element consists of its position only.
static_assert(sizeof(element) == sizeof(tape_ref) && std::is_trivially_copyable_v<element>);
element element_at(const JsonTape& tape, std::size_t at) {
  return std::bit_cast<element>(ref(tape, at));
}

// Containers begin with a brace that knows its counterpart.
std::size_t end_of(const JsonTape& tape, std::size_t container) {
  return ref(tape, container).matching_brace_index() - 1;
}

template <class T>
std::optional<T> read(const JsonTape& tape, std::size_t at) {
  T value{};
  if (element_at(tape, at).get(value) != SUCCESS) return std::nullopt;
  return value;
}

/// What is wrong with a text that does not parse.
std::string problem(simdjson::error_code code, std::size_t most_depth) {
  if (code == simdjson::DEPTH_ERROR) return fmt::format("nested more than {} deep", most_depth);
  if (code == simdjson::NUMBER_ERROR) return "a number that is malformed, or an integer beyond 64 bits";
  return fmt::format("not valid JSON: {}", simdjson::error_message(code));
}

bool is_plain(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kQuotedBytes && std::ranges::all_of(name, plain);
}

void append_name(std::string& path, std::string_view name) {
  if (!is_plain(name)) {
    path += fmt::format("[{}]", in_quotes(name));
    return;
  }
  if (!path.empty()) path += '.';
  path += name;
}

// Descends from the root to a position: at each container, into the child whose part of the tape contains it.
std::string path_to(const JsonTape& tape, std::size_t place) {
  std::string path;
  std::size_t at = kRoot;
  while (at != place) {
    const bool is_object = element_at(tape, at).is_object();
    std::size_t index = 0;
    std::size_t child = at + 1;  // an object's members begin with their names
    for (std::size_t next = child;; ++index) {
      child = next;
      next = ref(tape, is_object ? child + 1 : child).after_element();
      if (next > place) break;
    }
    if (is_object) {
      append_name(path, ref(tape, child).get_string_view());
    } else {
      path += fmt::format("[{}]", index);
    }
    at = is_object ? child + 1 : child;
  }
  return path.empty() ? std::string(tape.rules.root) : path;
}

std::string_view name_of(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "a boolean";
    case JsonKind::kNumber:
      return "a number";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "a value of unknown kind";
}

std::unexpected<Error> failure(const JsonTape& tape, ErrorCode code, std::string_view path, std::string_view what) {
  std::string message;
  for (const std::string_view part : {std::string_view(tape.rules.name), path}) {
    if (!part.empty()) message.append(part).append(": ");
  }
  return fail(code, message.append(what));
}

template <class T, class Read>
auto read_if_there(const Result<std::optional<JsonValue>>& found, const Read& read) -> Result<std::optional<T>> {
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::optional<T>();
  Result<T> value = read(**found);
  if (!value) return std::unexpected(std::move(value).error());
  return std::optional<T>(*std::move(value));
}

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  std::size_t at = 0;
  while (at < std::min(text.size(), kQuotedBytes)) {
    const std::size_t length = utf8_sequence_length(text.substr(at));
    if (length == 0 || (length == 1 && static_cast<unsigned char>(text[at]) < 0x20)) {
      out += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at]));
      ++at;
    } else {
      out.append(text.substr(at, length));
      at += length;
    }
  }
  out += '"';
  return at < text.size() ? out + "..." : out;
}

JsonKind JsonValue::kind() const {
  switch (element_at(*tape_, at_).type()) {
    case element_type::ARRAY:
      return JsonKind::kArray;
    case element_type::OBJECT:
      return JsonKind::kObject;
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return JsonKind::kNumber;
    case element_type::STRING:
      return JsonKind::kString;
    case element_type::BOOL:
      return JsonKind::kBool;
    case element_type::NULL_VALUE:
      break;
  }
  return JsonKind::kNull;
}

std::optional<std::string_view> JsonValue::if_string() const {
  return read<std::string_view>(*tape_, at_);
}

std::optional<bool> JsonValue::if_bool() const {
  return read<bool>(*tape_, at_);
}

std::optional<double> JsonValue::if_double() const {
  return read<double>(*tape_, at_);
}

std::optional<std::int64_t> JsonValue::if_int() const {
  return read<std::int64_t>(*tape_, at_);
}

std::optional<std::uint64_t> JsonValue::if_unsigned() const {
  return read<std::uint64_t>(*tape_, at_);
}

std::optional<JsonArray> JsonValue::if_array() const {
  if (kind() != JsonKind::kArray) return std::nullopt;
  return JsonArray(*this);
}

std::optional<JsonObject> JsonValue::if_object() const {
  if (kind() != JsonKind::kObject) return std::nullopt;
  return JsonObject(*this);
}

Result<std::string_view> JsonValue::as_string() const {
  if (const auto text = if_string()) return *text;
  return expected("a string");
}

Result<bool> JsonValue::as_bool() const {
  if (const auto flag = if_bool()) return *flag;
  return expected("true or false");
}

Result<double> JsonValue::as_double(double low, double high) const {
  if (const auto number = if_double(); number && *number >= low && *number <= high) return *number;
  return expected(fmt::format("a number from {} to {}", low, high));
}

Result<std::int64_t> JsonValue::as_int(std::int64_t low, std::int64_t high) const {
  if (const auto number = if_int(); number && *number >= low && *number <= high) return *number;
  return expected(fmt::format("an integer from {} to {}", low, high));
}

Result<std::uint64_t> JsonValue::as_unsigned(std::uint64_t low, std::uint64_t high) const {
  if (const auto number = if_unsigned(); number && *number >= low && *number <= high) return *number;
  return expected(fmt::format("an integer from {} to {}", low, high));
}

Result<JsonArray> JsonValue::as_array(std::string_view what) const {
  if (const auto array = if_array()) return *array;
  return expected(what);
}

Result<JsonObject> JsonValue::as_object() const {
  if (const auto object = if_object()) return *object;
  return expected("an object");
}

std::string JsonValue::minified() const {
  return simdjson::minify(element_at(*tape_, at_));
}

std::string JsonValue::path() const {
  return path_to(*tape_, at_);
}

std::unexpected<Error> JsonValue::expected(std::string_view what) const {
  const std::string got = kind() == JsonKind::kNumber ? minified() : std::string(name_of(kind()));
  return wrong(fmt::format("expected {}, got {}", what, got));
}

std::unexpected<Error> JsonValue::wrong(std::string_view what) const {
  return error(tape_->rules.wrong, what);
}

std::unexpected<Error> JsonValue::error(ErrorCode code, std::string_view what) const {
  return failure(*tape_, code, path(), what);
}

JsonValue JsonArray::Iterator::operator*() const {
  return {tape_, at_};
}

JsonArray::Iterator& JsonArray::Iterator::operator++() {
  at_ = ref(*tape_, at_).after_element();
  return *this;
}

JsonArray::Iterator JsonArray::begin() const {
  return {value_.tape_, value_.at_ + 1};
}

JsonArray::Iterator JsonArray::end() const {
  return {value_.tape_, end_of(*value_.tape_, value_.at_)};
}

std::size_t JsonArray::size() const {
  return ref(*value_.tape_, value_.at_).scope_count();
}

JsonObject::Member JsonObject::Iterator::operator*() const {
  return {.key = ref(*tape_, at_).get_string_view(), .value = JsonValue(tape_, at_ + 1)};
}

JsonObject::Iterator& JsonObject::Iterator::operator++() {
  at_ = ref(*tape_, at_ + 1).after_element();
  return *this;
}

JsonObject::Iterator JsonObject::begin() const {
  return {value_.tape_, value_.at_ + 1};
}

JsonObject::Iterator JsonObject::end() const {
  return {value_.tape_, end_of(*value_.tape_, value_.at_)};
}

std::size_t JsonObject::size() const {
  return ref(*value_.tape_, value_.at_).scope_count();
}

JsonObject::Found JsonObject::look_up(std::string_view name) const {
  Found found;
  std::size_t number = 0;
  for (const auto [key, value] : *this) {
    if (key == name) {
      asked_[number / 64] |= std::uint64_t{1} << number % 64;
      found.twice = found.value.has_value();
      if (!found.value) found.value = value;
    }
    if (++number == kMostNamed) break;
  }
  return found;
}

Result<std::optional<JsonValue>> JsonObject::find_or_null(std::string_view name) const {
  if (size() > kMostNamed) return value_.wrong(fmt::format("more than {} fields", kMostNamed));
  const Found found = look_up(name);
  if (found.twice) return wrong(name, "given more than once");
  return found.value;
}

Result<std::optional<JsonValue>> JsonObject::find(std::string_view name) const {
  KVIST_TRY(const std::optional<JsonValue> value, find_or_null(name));
  return value && value->is_null() ? std::nullopt : value;
}

std::optional<JsonValue> JsonObject::peek(std::string_view name) const {
  if (size() > kMostNamed) return std::nullopt;
  const Found found = look_up(name);
  return found.twice || !found.value || found.value->is_null() ? std::nullopt : found.value;
}

bool JsonObject::has(std::string_view name) const {
  return look_up(name).value.has_value();
}

Result<std::optional<std::string_view>> JsonObject::find_string(std::string_view name) const {
  return read_if_there<std::string_view>(find(name), [](const JsonValue& value) { return value.as_string(); });
}

Result<std::optional<bool>> JsonObject::find_bool(std::string_view name) const {
  return read_if_there<bool>(find(name), [](const JsonValue& value) { return value.as_bool(); });
}

Result<std::optional<double>> JsonObject::find_double(std::string_view name, double low, double high) const {
  return read_if_there<double>(find(name), [&](const JsonValue& value) { return value.as_double(low, high); });
}

Result<std::optional<std::int64_t>> JsonObject::find_int(std::string_view name, std::int64_t low,
                                                         std::int64_t high) const {
  return read_if_there<std::int64_t>(find(name), [&](const JsonValue& value) { return value.as_int(low, high); });
}

Result<std::optional<std::uint64_t>> JsonObject::find_unsigned(std::string_view name, std::uint64_t low,
                                                               std::uint64_t high) const {
  return read_if_there<std::uint64_t>(find(name), [&](const JsonValue& value) { return value.as_unsigned(low, high); });
}

Result<std::optional<JsonObject>> JsonObject::find_object(std::string_view name) const {
  return read_if_there<JsonObject>(find(name), [](const JsonValue& value) { return value.as_object(); });
}

Result<std::optional<JsonArray>> JsonObject::find_array(std::string_view name, std::string_view what) const {
  return read_if_there<JsonArray>(find(name), [&](const JsonValue& value) { return value.as_array(what); });
}

Result<bool> JsonObject::bool_or(std::string_view name, bool otherwise) const {
  KVIST_TRY(const std::optional<bool> flag, find_bool(name));
  return flag.value_or(otherwise);
}

Result<JsonValue> JsonObject::require(std::string_view name) const {
  KVIST_TRY(const std::optional<JsonValue> value, find(name));
  if (!value) return wrong(name, "required, but missing");
  return *value;
}

Result<JsonValue> JsonObject::require_or_null(std::string_view name) const {
  KVIST_TRY(const std::optional<JsonValue> value, find_or_null(name));
  if (!value) return wrong(name, "required, but missing");
  return *value;
}

Result<std::string_view> JsonObject::require_string(std::string_view name) const {
  KVIST_TRY(const JsonValue value, require(name));
  return value.as_string();
}

Result<bool> JsonObject::require_bool(std::string_view name) const {
  KVIST_TRY(const JsonValue value, require(name));
  return value.as_bool();
}

Result<double> JsonObject::require_double(std::string_view name, double low, double high) const {
  KVIST_TRY(const JsonValue value, require(name));
  return value.as_double(low, high);
}

Result<std::uint64_t> JsonObject::require_unsigned(std::string_view name, std::uint64_t low, std::uint64_t high) const {
  KVIST_TRY(const JsonValue value, require(name));
  return value.as_unsigned(low, high);
}

Result<JsonObject> JsonObject::require_object(std::string_view name) const {
  KVIST_TRY(const JsonValue value, require(name));
  return value.as_object();
}

Result<JsonArray> JsonObject::require_array(std::string_view name, std::string_view what) const {
  KVIST_TRY(const JsonValue value, require(name));
  return value.as_array(what);
}

void JsonObject::ignore(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) (void)look_up(name);
}

Result<void> JsonObject::finish() const {
  if (size() > kMostNamed) return value_.wrong(fmt::format("more than {} fields", kMostNamed));
  std::size_t number = 0;
  for (const auto [key, value] : *this) {
    if ((asked_[number / 64] >> number % 64 & 1) == 0) {
      return value_.unsupported(fmt::format("{} is not known here", in_quotes(key)));
    }
    ++number;
  }
  return {};
}

std::string JsonObject::path_of(std::string_view name) const {
  std::string path = value_.at_ == kRoot ? std::string() : value_.path();
  append_name(path, name);
  return path;
}

std::unexpected<Error> JsonObject::wrong(std::string_view name, std::string_view what) const {
  return error(value_.tape_->rules.wrong, name, what);
}

std::unexpected<Error> JsonObject::error(ErrorCode code, std::string_view name, std::string_view what) const {
  return failure(*value_.tape_, code, path_of(name), what);
}

JsonDocument::JsonDocument(JsonRules rules) : tape_(std::make_unique<JsonTape>(std::move(rules))) {}
JsonDocument::~JsonDocument() = default;
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;

Result<JsonValue> JsonDocument::parse(std::string_view text) {
  const JsonRules& rules = tape_->rules;
  if (text.size() > rules.most_bytes) {
    return failure(*tape_, ErrorCode::kTooLarge, rules.root,
                   fmt::format("{} bytes, at most {} are read", text.size(), rules.most_bytes));
  }
  simdjson::dom::parser& parser = tape_->parser;
  if ((parser.capacity() < text.size() || parser.max_depth() != rules.most_depth) &&
      parser.allocate(std::max(text.size(), kLeastCapacity), rules.most_depth) != SUCCESS) {
    return failure(*tape_, ErrorCode::kResourceExhausted, rules.root, "no memory to parse it");
  }
  if (const simdjson::error_code code = parser.parse(text.data(), text.size()).error(); code != SUCCESS) {
    return failure(*tape_, rules.wrong, rules.root, problem(code, rules.most_depth));
  }
  return JsonValue(tape_.get(), kRoot);
}

Result<JsonObject> JsonDocument::parse_object(std::string_view text) {
  KVIST_TRY(const JsonValue root, parse(text));
  return root.as_object();
}

}  // namespace kvist

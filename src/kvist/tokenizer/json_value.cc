#include "kvist/tokenizer/json_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "kvist/base/utf8.h"

namespace kvist::tokenizer {
namespace {

constexpr std::size_t kQuotedBytes = 60;

std::string_view kind_of(simdjson::dom::element element) {
  switch (element.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "a list";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "true or false";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64:
    case simdjson::dom::element_type::DOUBLE:
      return "a number";
  }
  return "something else";
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

std::unexpected<Error> JsonValue::corrupt(std::string_view what) const {
  return fail(ErrorCode::kCorrupt, path_.empty() ? std::string(what) : fmt::format("{}: {}", path_, what));
}

std::unexpected<Error> JsonValue::unsupported(std::string_view what) const {
  return fail(ErrorCode::kUnsupported, path_.empty() ? std::string(what) : fmt::format("{}: {}", path_, what));
}

Result<std::string_view> JsonValue::string() const {
  std::string_view value;
  if (element_.get(value) != simdjson::SUCCESS) return corrupt(fmt::format("{}, not a string", kind_of(element_)));
  return value;
}

Result<bool> JsonValue::boolean() const {
  bool value = false;
  if (element_.get(value) != simdjson::SUCCESS) return corrupt(fmt::format("{}, not true or false", kind_of(element_)));
  return value;
}

Result<std::uint32_t> JsonValue::integer(std::uint32_t most) const {
  std::uint64_t value = 0;
  if (element_.get(value) != simdjson::SUCCESS || value > most) {
    const bool number = kind_of(element_) == "a number";
    return corrupt(fmt::format("{}, not a whole number from 0 to {}",
                               number ? simdjson::to_string(element_) : std::string(kind_of(element_)), most));
  }
  return static_cast<std::uint32_t>(value);
}

Result<JsonObject> JsonValue::object() const {
  simdjson::dom::object value;
  if (element_.get(value) != simdjson::SUCCESS) return corrupt(fmt::format("{}, not an object", kind_of(element_)));
  return JsonObject(value, path_);
}

Result<simdjson::dom::array> JsonValue::array() const {
  simdjson::dom::array value;
  if (element_.get(value) != simdjson::SUCCESS) return corrupt(fmt::format("{}, not a list", kind_of(element_)));
  return value;
}

JsonValue JsonValue::element(std::size_t index, simdjson::dom::element element) const {
  return {element, fmt::format("{}[{}]", path_, index)};
}

std::optional<JsonValue> JsonObject::find(std::string_view key) {
  known_.push_back(key);
  simdjson::dom::element value;
  if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return JsonValue(value, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key));
}

Result<JsonValue> JsonObject::require(std::string_view key) {
  std::optional<JsonValue> value = find(key);
  if (!value) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: \"{}\" is missing", path_.empty() ? "document" : path_, key));
  }
  return *std::move(value);
}

Result<std::string_view> JsonObject::type() {
  KVIST_TRY(const JsonValue value, require("type"));
  return value.string();
}

Result<bool> JsonObject::boolean_or(std::string_view key, bool otherwise) {
  const std::optional<JsonValue> value = find(key);
  if (!value) return otherwise;
  return value->boolean();
}

Result<void> JsonObject::finish() const {
  std::vector<std::string_view> seen;
  for (const auto member : object_) {
    const std::string_view key = member.key;
    const std::string where = path_.empty() ? "document" : path_;
    if (std::ranges::find(known_, key) == known_.end()) {
      return fail(ErrorCode::kUnsupported, fmt::format("{}: {} is not known here", where, in_quotes(key)));
    }
    if (std::ranges::find(seen, key) != seen.end()) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: {} stands there twice", where, in_quotes(key)));
    }
    seen.push_back(key);
  }
  return {};
}

}  // namespace kvist::tokenizer

#include "kvist/openai/json_object_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvist::openai {
namespace {

using simdjson::dom::element_type;

// A parser's memory is about ten times the largest text it has seen.
constexpr std::size_t kSharedParserBytes = 1UL << 20;

bool is_number(JsonElement element) {
  return element.type() == element_type::INT64 || element.type() == element_type::UINT64 ||
         element.type() == element_type::DOUBLE;
}

}  // namespace

std::string_view kind_of(JsonElement element) {
  switch (element.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "a number";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "a value of unknown kind";
}

std::unexpected<Error> unexpected_value(std::string_view path, std::string_view expected, JsonElement got) {
  const std::string found = is_number(got) ? simdjson::minify(got) : std::string(kind_of(got));
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: expected {}, got {}", path, expected, found));
}

Result<JsonObject> JsonObject::from(JsonElement element, std::string path) {
  simdjson::dom::object object;
  if (element.get(object) != simdjson::SUCCESS)
    return unexpected_value(path.empty() ? "body" : path, "an object", element);
  if (object.size() > kMaxObjectFields) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: more than {} fields", path.empty() ? "body" : path, kMaxObjectFields));
  }
  return JsonObject(object, std::move(path));
}

std::string JsonObject::path_of(std::string_view field) const {
  return path_.empty() ? std::string(field) : fmt::format("{}.{}", path_, field);
}

Result<std::optional<JsonElement>> JsonObject::find(std::string_view field) const {
  std::optional<JsonElement> found;
  for (const auto& [key, value] : object_) {
    if (key != field) continue;
    if (found) return fail(ErrorCode::kInvalidArgument, path_of(field) + ": given more than once");
    found = value;
  }
  if (found && found->is_null()) return std::optional<JsonElement>();
  return found;
}

Result<std::optional<std::string_view>> JsonObject::find_string(std::string_view field) const {
  KVIST_TRY(const std::optional<JsonElement> element, find(field));
  if (!element) return std::optional<std::string_view>();
  std::string_view text;
  if (element->get(text) != simdjson::SUCCESS) return unexpected_value(path_of(field), "a string", *element);
  return std::optional(text);
}

Result<std::optional<bool>> JsonObject::find_bool(std::string_view field) const {
  KVIST_TRY(const std::optional<JsonElement> element, find(field));
  if (!element) return std::optional<bool>();
  bool flag = false;
  if (element->get(flag) != simdjson::SUCCESS) return unexpected_value(path_of(field), "true or false", *element);
  return std::optional(flag);
}

Result<std::optional<double>> JsonObject::find_number(std::string_view field, double low, double high) const {
  KVIST_TRY(const std::optional<JsonElement> element, find(field));
  if (!element) return std::optional<double>();
  double number = 0;
  if (element->get(number) != simdjson::SUCCESS || !(number >= low && number <= high))
    return unexpected_value(path_of(field), fmt::format("a number from {} to {}", low, high), *element);
  return std::optional(number);
}

Result<std::optional<std::int64_t>> JsonObject::find_integer(std::string_view field, std::int64_t low,
                                                             std::int64_t high) const {
  KVIST_TRY(const std::optional<JsonElement> element, find(field));
  if (!element) return std::optional<std::int64_t>();
  std::int64_t number = 0;
  if (element->get(number) != simdjson::SUCCESS || number < low || number > high)
    return unexpected_value(path_of(field), fmt::format("an integer from {} to {}", low, high), *element);
  return std::optional(number);
}

Result<JsonObject> JsonBody::parse(std::string_view body) {
  if (body.size() > kMaxJsonBytes) {
    return fail(ErrorCode::kTooLarge, fmt::format("body: {} bytes, at most {} are read", body.size(), kMaxJsonBytes));
  }
  thread_local simdjson::dom::parser shared;
  if (body.size() > kSharedParserBytes) own_ = std::make_unique<simdjson::dom::parser>();
  simdjson::dom::parser& parser = own_ ? *own_ : shared;
  if (parser.max_depth() != kMaxJsonDepth &&
      parser.allocate(std::max(body.size(), std::size_t{4096}), kMaxJsonDepth) != simdjson::SUCCESS)
    return fail(ErrorCode::kResourceExhausted, "body: no memory to parse it");

  JsonElement root;
  const simdjson::error_code error = parser.parse(body.data(), body.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("body: not valid JSON: {}", simdjson::error_message(error)));
  }
  return JsonObject::from(root, "");
}

}  // namespace kvist::openai

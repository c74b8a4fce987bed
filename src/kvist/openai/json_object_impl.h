// Reads request JSON with error messages that name the field. Private to the module, because it exposes simdjson's
// types.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::openai {

using JsonElement = simdjson::dom::element;

/// The deepest nesting of a request; real ones need about 10.
inline constexpr std::size_t kMaxJsonDepth = 64;
/// Larger texts are refused before they are parsed.
inline constexpr std::size_t kMaxJsonBytes = 64UL << 20;
/// The most fields of one object of a request; real ones have about 30.
inline constexpr std::size_t kMaxObjectFields = 256;

/// The kind of a value for messages: "a string", "an object", "null", ...
[[nodiscard]] std::string_view kind_of(JsonElement element);

/// "path: expected <what>, got <kind or number>".
[[nodiscard]] std::unexpected<Error> unexpected_value(std::string_view path, std::string_view expected,
                                                      JsonElement got);

/// One object of a request and its place in the body. A field that is given twice is refused when it is read, because
/// JSON readers differ in which of the two counts. A null field counts as absent.
class JsonObject {
 public:
  [[nodiscard]] static Result<JsonObject> from(JsonElement element, std::string path);

  /// The path of `field` in the body, for messages: "messages[2].content".
  [[nodiscard]] std::string path_of(std::string_view field) const;

  [[nodiscard]] Result<std::optional<JsonElement>> find(std::string_view field) const;
  [[nodiscard]] Result<std::optional<std::string_view>> find_string(std::string_view field) const;
  [[nodiscard]] Result<std::optional<bool>> find_bool(std::string_view field) const;
  [[nodiscard]] Result<std::optional<double>> find_number(std::string_view field, double low, double high) const;
  [[nodiscard]] Result<std::optional<std::int64_t>> find_integer(std::string_view field, std::int64_t low,
                                                                 std::int64_t high) const;

 private:
  JsonObject(simdjson::dom::object object, std::string path) : object_(object), path_(std::move(path)) {}

  simdjson::dom::object object_;
  std::string path_;
};

/// A parsed body. Values read from it are valid during its lifetime, and only until the same thread parses another one.
class JsonBody {
 public:
  /// The body's object; kInvalidArgument if it is no JSON object, with simdjson's reason.
  [[nodiscard]] Result<JsonObject> parse(std::string_view body);

 private:
  std::unique_ptr<simdjson::dom::parser> own_;  // for large bodies, so that no thread keeps their memory
};

}  // namespace kvist::openai

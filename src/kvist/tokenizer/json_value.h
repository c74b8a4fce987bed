// A strict reader of tokenizer.json, whose errors name the place. Private to the module, because it includes simdjson.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::tokenizer {

class JsonObject;

/// A value of the document and its path in it ("model.merges[7]"). Valid as long as the document's parser.
class JsonValue {
 public:
  JsonValue(simdjson::dom::element element, std::string path) : element_(element), path_(std::move(path)) {}

  [[nodiscard]] bool is_null() const { return element_.is_null(); }
  [[nodiscard]] bool is_string() const { return element_.is_string(); }
  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] Result<std::string_view> string() const;
  [[nodiscard]] Result<bool> boolean() const;
  /// A whole number from 0 to `most`.
  [[nodiscard]] Result<std::uint32_t> integer(std::uint32_t most) const;
  [[nodiscard]] Result<JsonObject> object() const;
  [[nodiscard]] Result<simdjson::dom::array> array() const;
  [[nodiscard]] JsonValue element(std::size_t index, simdjson::dom::element element) const;

  /// An error at this place.
  [[nodiscard]] std::unexpected<Error> corrupt(std::string_view what) const;
  [[nodiscard]] std::unexpected<Error> unsupported(std::string_view what) const;

 private:
  simdjson::dom::element element_;
  std::string path_;
};

/// An object whose members are read by name. finish() refuses members that were not read, because they could change the
/// meaning of the others.
class JsonObject {
 public:
  JsonObject(simdjson::dom::object object, std::string path) : object_(object), path_(std::move(path)) {}

  /// A member; nothing if it is missing or null.
  [[nodiscard]] std::optional<JsonValue> find(std::string_view key);
  [[nodiscard]] Result<JsonValue> require(std::string_view key);
  /// The string member "type", which is the kind of a step.
  [[nodiscard]] Result<std::string_view> type();
  [[nodiscard]] Result<bool> boolean_or(std::string_view key, bool otherwise);
  /// Allows members that make no difference to kvist.
  void ignore(std::initializer_list<std::string_view> keys) { known_.insert(known_.end(), keys); }

  [[nodiscard]] Result<void> finish() const;
  [[nodiscard]] simdjson::dom::object members() const { return object_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  simdjson::dom::object object_;
  std::string path_;
  std::vector<std::string_view> known_;
};

/// A text for an error message: at most 60 bytes of it, in quotes, with control characters escaped.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace kvist::tokenizer

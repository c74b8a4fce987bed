// Typed reading of JSON: every error names the place in the document, the expected value and the actual one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist {

/// The rules for one kind of document.
struct JsonRules {
  std::string name = {};                  ///< prefix of every message, e.g. a file's name; may be empty
  std::string_view root = {};             ///< the name of the whole document in messages; may be empty
  ErrorCode wrong = ErrorCode::kCorrupt;  ///< the error code for violations of the format
  std::size_t most_bytes = 64UL << 20;    ///< larger texts are refused before they are parsed
  std::size_t most_depth = 64;            ///< nesting of arrays and objects
};

enum class JsonKind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };

class JsonArray;
class JsonDocument;
class JsonObject;
struct JsonTape;  // a parsed text

/// A value of a JsonDocument: a position in it, cheap to copy, valid until the document parses again or is destroyed.
/// The path is computed only if a message needs it, by a walk from the root.
class JsonValue {
 public:
  [[nodiscard]] JsonKind kind() const;
  [[nodiscard]] bool is_null() const { return kind() == JsonKind::kNull; }

  // Return an error that names the place if the value has another type or is out of bounds.
  [[nodiscard]] Result<std::string_view> as_string() const;
  [[nodiscard]] Result<bool> as_bool() const;
  [[nodiscard]] Result<double> as_double(double low, double high) const;
  [[nodiscard]] Result<std::int64_t> as_int(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] Result<std::uint64_t> as_unsigned(std::uint64_t low, std::uint64_t high) const;
  [[nodiscard]] Result<JsonArray> as_array(std::string_view what = "an array") const;
  [[nodiscard]] Result<JsonObject> as_object() const;

  // The same without an error message, for callers that accept other values or ignore them.
  [[nodiscard]] std::optional<std::string_view> if_string() const;
  [[nodiscard]] std::optional<bool> if_bool() const;
  [[nodiscard]] std::optional<double> if_double() const;
  [[nodiscard]] std::optional<std::int64_t> if_int() const;
  [[nodiscard]] std::optional<std::uint64_t> if_unsigned() const;
  [[nodiscard]] std::optional<JsonArray> if_array() const;
  [[nodiscard]] std::optional<JsonObject> if_object() const;

  /// The value's text without white space between its tokens.
  [[nodiscard]] std::string minified() const;
  /// "messages[2].content", "vocab[\"a b\"]"; for the root, JsonRules::root.
  [[nodiscard]] std::string path() const;

  /// "path: expected <what>, got <kind, or the number>", with the document's code.
  [[nodiscard]] std::unexpected<Error> expected(std::string_view what) const;
  /// "path: <what>", with the document's code.
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view what) const;
  /// "path: <what>", with another code.
  [[nodiscard]] std::unexpected<Error> error(ErrorCode code, std::string_view what) const;
  [[nodiscard]] std::unexpected<Error> unsupported(std::string_view what) const {
    return error(ErrorCode::kUnsupported, what);
  }

 private:
  friend class JsonArray;
  friend class JsonDocument;
  friend class JsonObject;
  JsonValue(const JsonTape* tape, std::size_t at) : tape_(tape), at_(at) {}

  const JsonTape* tape_;
  std::size_t at_;  // on the tape
};

/// The values of an array in their order: `for (const JsonValue value : array)`.
class JsonArray {
 public:
  class Iterator {
   public:
    [[nodiscard]] JsonValue operator*() const;
    Iterator& operator++();
    [[nodiscard]] bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    friend class JsonArray;
    Iterator(const JsonTape* tape, std::size_t at) : tape_(tape), at_(at) {}
    const JsonTape* tape_;
    std::size_t at_;
  };

  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return begin() == end(); }
  /// The array as a value, for errors that are about all of it.
  [[nodiscard]] const JsonValue& value() const { return value_; }

 private:
  friend class JsonValue;
  explicit JsonArray(const JsonValue& value) : value_(value) {}
  JsonValue value_;
};

/// An object, read by name or member by member: `for (const auto [key, value] : object)`. Reading by name refuses a
/// duplicate name, because parsers differ in which member they use, and treats a null member as absent. It records the
/// names, so that finish() can refuse the other members. Threads: one.
class JsonObject {
 public:
  /// Objects with more members cannot be read by name.
  static constexpr std::size_t kMostNamed = 256;

  struct Member {
    std::string_view key;
    JsonValue value;
  };
  class Iterator {
   public:
    [[nodiscard]] Member operator*() const;
    Iterator& operator++();
    [[nodiscard]] bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    friend class JsonObject;
    Iterator(const JsonTape* tape, std::size_t at) : tape_(tape), at_(at) {}
    const JsonTape* tape_;
    std::size_t at_;
  };

  [[nodiscard]] Iterator begin() const;
  [[nodiscard]] Iterator end() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const JsonValue& value() const { return value_; }

  /// The member of that name; nothing if it is absent or null.
  [[nodiscard]] Result<std::optional<JsonValue>> find(std::string_view name) const;
  [[nodiscard]] Result<std::optional<std::string_view>> find_string(std::string_view name) const;
  [[nodiscard]] Result<std::optional<bool>> find_bool(std::string_view name) const;
  [[nodiscard]] Result<std::optional<double>> find_double(std::string_view name, double low, double high) const;
  [[nodiscard]] Result<std::optional<std::int64_t>> find_int(std::string_view name, std::int64_t low,
                                                             std::int64_t high) const;
  [[nodiscard]] Result<std::optional<std::uint64_t>> find_unsigned(std::string_view name, std::uint64_t low,
                                                                   std::uint64_t high) const;
  [[nodiscard]] Result<std::optional<JsonObject>> find_object(std::string_view name) const;
  [[nodiscard]] Result<std::optional<JsonArray>> find_array(std::string_view name,
                                                            std::string_view what = "an array") const;

  [[nodiscard]] Result<bool> bool_or(std::string_view name, bool otherwise) const;

  /// The same; an error if it is absent or null.
  [[nodiscard]] Result<JsonValue> require(std::string_view name) const;
  [[nodiscard]] Result<std::string_view> require_string(std::string_view name) const;
  [[nodiscard]] Result<bool> require_bool(std::string_view name) const;
  [[nodiscard]] Result<double> require_double(std::string_view name, double low, double high) const;
  [[nodiscard]] Result<std::uint64_t> require_unsigned(std::string_view name, std::uint64_t low,
                                                       std::uint64_t high) const;
  [[nodiscard]] Result<JsonObject> require_object(std::string_view name) const;
  [[nodiscard]] Result<JsonArray> require_array(std::string_view name, std::string_view what = "an array") const;

  /// The member, which may be null but not absent.
  [[nodiscard]] Result<JsonValue> require_or_null(std::string_view name) const;

  /// find() without an error message: nothing on errors too.
  [[nodiscard]] std::optional<JsonValue> peek(std::string_view name) const;
  /// Whether a member has that name, null or not.
  [[nodiscard]] bool has(std::string_view name) const;

  /// Excludes members that do not affect the reader from finish().
  void ignore(std::initializer_list<std::string_view> names) const;
  /// kUnsupported if there is a member that was not read or ignored: it could change the meaning of the others.
  [[nodiscard]] Result<void> finish() const;

  /// An error about the member of that name, whether or not it exists: "path.name: <what>", with the document's code or
  /// another one.
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view name, std::string_view what) const;
  [[nodiscard]] std::unexpected<Error> error(ErrorCode code, std::string_view name, std::string_view what) const;
  [[nodiscard]] std::string path_of(std::string_view name) const;

 private:
  friend class JsonValue;
  explicit JsonObject(const JsonValue& value) : value_(value) {}

  struct Found {
    std::optional<JsonValue> value;  // the first of the name; null or not
    bool twice = false;
  };
  [[nodiscard]] Found look_up(std::string_view name) const;
  [[nodiscard]] Result<std::optional<JsonValue>> find_or_null(std::string_view name) const;

  JsonValue value_;
  mutable std::array<std::uint64_t, kMostNamed / 64> asked_{};  // a bit per member
};

/// Parses texts and owns the memory of their values. simdjson does the work but is hidden, because its header costs
/// every file that includes it a second of compile time. Two places use it directly for speed: chunks of a stream
/// (openai/chunk_parser.cc) and the check for UTF-8 (tokenizer/encoder.cc). Memory: about ten times the largest text so
/// far. Threads: one.
class JsonDocument {
 public:
  explicit JsonDocument(JsonRules rules = {});
  ~JsonDocument();
  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;

  /// Returns the root and invalidates the values of an earlier text. Errors: kTooLarge beyond the bound;
  /// JsonRules::wrong for invalid JSON or too deep nesting.
  [[nodiscard]] Result<JsonValue> parse(std::string_view text);
  /// The same; an error if the root is not an object.
  [[nodiscard]] Result<JsonObject> parse_object(std::string_view text);

 private:
  std::unique_ptr<JsonTape> tape_;
};

/// Text for a message: at most 60 bytes of it, in quotes, with control characters and invalid UTF-8 escaped.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace kvist

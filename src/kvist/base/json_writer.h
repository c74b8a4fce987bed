// Writes JSON text with correct escaping, without a document in memory.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvist {

/// Appends `text` to `out` as a JSON string with its quotes. Invalid UTF-8 becomes U+FFFD, so the result is always
/// valid JSON.
void append_json_string(std::string& out, std::string_view text);

/// A streaming JSON writer. Calls must form one document: keys inside objects, values elsewhere; a misuse aborts.
/// `indent` 0 writes everything on one line. Numbers that JSON cannot hold (NaN, infinities) are written as null.
class JsonWriter {
 public:
  explicit JsonWriter(int indent = 0) : indent_(indent) {}

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);  ///< shortest text that is read as the same double
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& value(T number) {
    return raw(std::to_string(number));
  }
  JsonWriter& null() { return raw("null"); }
  /// A value that is JSON text already.
  JsonWriter& raw(std::string_view json);

  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    return key(name).value(v);
  }
  /// Rounded to 1 / `scale`: what is behind that in a measurement is noise. Null if it is not known, or not finite.
  JsonWriter& rounded_field(std::string_view name, std::optional<double> v, double scale = 1e6);

  /// The finished document. Requires: every object and array to be closed.
  [[nodiscard]] std::string take();

 private:
  void before_value();
  void new_line();
  void open(char bracket);
  void close(char bracket);

  std::string out_;
  std::vector<char> open_;  // '{' or '[' per level
  int indent_;
  bool first_ = true;  // nothing was written yet at this level
  bool after_key_ = false;
};

}  // namespace kvist

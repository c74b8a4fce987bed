// Values that may be unknown, as JSON.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string_view>

#include "kvist/base/json_writer.h"

namespace kvist::dashboard {

/// null if unknown.
template <class T>
void optional_value(JsonWriter& json, const std::optional<T>& value) {
  if (value) {
    json.value(*value);
  } else {
    json.null();
  }
}
template <class T>
void optional_field(JsonWriter& json, std::string_view name, const std::optional<T>& value) {
  json.key(name);
  optional_value(json, value);
}
/// A figure of a plot: six digits are more than it shows, and its text is a third as long as the double's.
inline void figure_value(JsonWriter& json, double value) {
  if (!std::isfinite(value)) {
    json.null();
    return;
  }
  char text[32];
  const int length = std::snprintf(text, sizeof(text), "%.6g", value);
  json.raw({text, static_cast<std::size_t>(length)});
}
/// null for an empty text.
inline void text_or_null(JsonWriter& json, std::string_view name, std::string_view text) {
  json.key(name);
  if (text.empty()) {
    json.null();
  } else {
    json.value(text);
  }
}

}  // namespace kvist::dashboard

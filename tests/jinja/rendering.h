// Rendering of templates in tests, with variables given as JSON.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/jinja/json_value.h"
#include "kvist/jinja/template.h"

namespace kvist::jinja {

/// Every text of `variables` (a JSON object) is marked.
inline Result<MarkedText> render_marked(std::string_view source, std::string_view variables = "{}",
                                        const Limits& limits = {},
                                        std::optional<std::chrono::local_seconds> now = std::nullopt) {
  KVIST_TRY(const Template compiled, Template::compile(source));
  Meter meter(limits);
  KVIST_TRY(const Value values, value_of_json(meter, variables, true));
  Template::Variables bound;
  for (const auto& [key, value] : values.dict()->entries) bound.emplace_back(key.text()->bytes(), value);
  return compiled.render(meter, bound, now);
}

/// The text, or "error: " and its message.
inline std::string render(std::string_view source, std::string_view variables = "{}") {
  Result<MarkedText> text = render_marked(source, variables);
  return text ? std::string(text->bytes()) : "error: " + text.error().message;
}

/// The text with [ and ] around what is marked.
inline std::string render_with_marks(std::string_view source, std::string_view variables) {
  const Result<MarkedText> text = render_marked(source, variables);
  if (!text) return "error: " + text.error().message;
  std::string out;
  for (std::size_t i = 0; i < text->size(); ++i) {
    const bool before = i > 0 && text->is_marked(i - 1);
    if (text->is_marked(i) && !before) out += '[';
    if (!text->is_marked(i) && before) out += ']';
    out += text->bytes()[i];
  }
  if (!text->empty() && text->is_marked(text->size() - 1)) out += ']';
  return out;
}

}  // namespace kvist::jinja

#include "kvist/tool_calls/call_json.h"

#include <string>
#include <utility>

#include "kvist/base/json.h"

namespace kvist::tool_calls {
namespace {

// Iterates over the direct members of a JSON container. Its text is known to be valid JSON, so only the depth and the
// borders of strings matter.
class Members {
 public:
  explicit Members(std::string_view json) : rest_(json.substr(1, json.size() - 2)) {}

  /// The next string, number, word or container as written; empty at the end.
  [[nodiscard]] std::string_view next() {
    const std::size_t begin = rest_.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return {};
    rest_.remove_prefix(begin);
    const std::string_view value = rest_.substr(0, length());
    rest_.remove_prefix(value.size());
    return value;
  }

 private:
  static constexpr std::string_view kBetween = " \n\r\t,:";

  [[nodiscard]] std::size_t length() const {
    if (rest_.front() == '"') return text_end(0);
    std::size_t depth = 0;
    for (std::size_t at = 0; at < rest_.size(); ++at) {
      const char byte = rest_[at];
      if (byte == '"') {
        at = text_end(at) - 1;
      } else if (byte == '{' || byte == '[') {
        ++depth;
      } else if (byte == '}' || byte == ']') {
        if (--depth == 0) return at + 1;
      } else if (depth == 0 && kBetween.contains(byte)) {
        return at;
      }
    }
    return rest_.size();
  }
  // The position after the string that begins at `begin`.
  [[nodiscard]] std::size_t text_end(std::size_t begin) const {
    std::size_t at = begin + 1;
    while (rest_[at] != '"') at += rest_[at] == '\\' ? 2 : 1;
    return at + 1;
  }

  std::string_view rest_;
};

// A string without quotes and escapes; nothing if `json` is not a string or contains half a surrogate pair.
std::optional<std::string> decoded(std::string_view json) {
  if (!json.starts_with('"')) return std::nullopt;
  JsonDocument document;
  const Result<JsonValue> root = document.parse(json);
  const std::optional<std::string_view> text = root ? root->if_string() : std::nullopt;
  if (!text) return std::nullopt;
  return std::string(*text);
}

}  // namespace

std::optional<text::ToolCall> call_of_json(std::string_view json) {
  if (!json.starts_with('{')) return std::nullopt;
  std::optional<std::string> name;
  std::optional<std::string_view> arguments;
  Members members(json);
  for (std::string_view key = members.next(); !key.empty(); key = members.next()) {
    const std::string_view value = members.next();
    if (key == R"("name")") {
      if (name) return std::nullopt;
      name = decoded(value);
      if (!name || name->empty()) return std::nullopt;
    } else if (key == R"("arguments")" || key == R"("parameters")") {
      if (arguments || !value.starts_with('{')) return std::nullopt;
      arguments = value;
    }
  }
  if (!name || !arguments) return std::nullopt;
  return text::ToolCall{.id = {}, .name = *std::move(name), .arguments = std::string(*arguments)};
}

std::optional<std::vector<text::ToolCall>> calls_of_json(std::string_view json) {
  if (!json.starts_with('[')) return std::nullopt;
  std::vector<text::ToolCall> calls;
  Members members(json);
  for (std::string_view value = members.next(); !value.empty(); value = members.next()) {
    std::optional<text::ToolCall> call = call_of_json(value);
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

}  // namespace kvist::tool_calls

#include "kvist/openai/message_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvist::openai {
namespace {

// The types of parts that vLLM treats as text, and the field with the text.
struct TextPart {
  std::string_view type;
  std::string_view field;
};
constexpr std::array kTextParts = std::to_array<TextPart>({{"text", "text"},
                                                           {"input_text", "text"},
                                                           {"output_text", "text"},
                                                           {"refusal", "refusal"},
                                                           {"thinking", "thinking"}});

// The text of a part; nothing if it is not text and read for routing.
Result<std::optional<std::string>> text_of_part(const JsonValue& value, ReadFor purpose) {
  const std::optional<std::string_view> plain = value.if_string();
  if (purpose == ReadFor::kRouting && plain) return std::optional(std::string(*plain));
  KVIST_TRY(const JsonObject part, value.as_object());
  KVIST_TRY(const std::string_view type, part.require_string("type"));
  const auto* known = std::ranges::find(kTextParts, type, &TextPart::type);
  if (known == kTextParts.end()) {
    if (purpose == ReadFor::kRouting) return std::optional<std::string>();
    return part.error(ErrorCode::kUnsupported, "type",
                      fmt::format("parts of type \"{}\" are not supported by this server, only \"text\"", type));
  }
  KVIST_TRY(const std::string_view text, part.require_string(known->field));
  return std::optional(std::string(text));
}

Result<void> read_parts(const JsonArray& parts, ReadFor purpose, text::ChatMessage& into) {
  for (const JsonValue part : parts) {
    KVIST_TRY(std::optional<std::string> text, text_of_part(part, purpose));
    if (!text) continue;
    if (!text->empty()) {
      if (!into.content.empty()) into.content += text::kPartSeparator;
      into.content += *text;
    }
    into.content_parts.push_back(*std::move(text));
  }
  return {};
}

}  // namespace

Result<void> read_content(const JsonObject& message, std::string_view role, ReadFor purpose, text::ChatMessage& into) {
  KVIST_TRY(const std::optional<JsonValue> content, message.find("content"));
  if (!content) {
    if (role == "assistant" || purpose == ReadFor::kRouting) return {};
    return message.wrong("content", fmt::format("required for role \"{}\", but missing or null", role));
  }
  if (const std::optional<std::string_view> text = content->if_string()) {
    into.content = *text;
    return {};
  }
  KVIST_TRY(const JsonArray parts, content->as_array("a string or an array of parts"));
  return read_parts(parts, purpose, into);
}

void read_reasoning(const JsonObject& message, text::ChatMessage& into) {
  if (into.role != "assistant") return;
  for (const std::string_view field : {"reasoning", "reasoning_content"}) {
    const std::optional<JsonValue> value = message.peek(field);
    const std::optional<std::string_view> text = value ? value->if_string() : std::nullopt;
    if (!text) continue;
    into.reasoning = *text;
    return;
  }
}

}  // namespace kvist::openai

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

std::unexpected<Error> missing(std::string_view path) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: required, but missing", path));
}

// The text of a part; nothing if it is not text and read for routing.
Result<std::optional<std::string>> text_of_part(JsonElement element, std::string path, ReadFor purpose) {
  std::string_view plain;
  if (purpose == ReadFor::kRouting && element.get(plain) == simdjson::SUCCESS) return std::optional(std::string(plain));
  KVIST_TRY(const JsonObject part, JsonObject::from(element, std::move(path)));
  KVIST_TRY(const std::optional<std::string_view> type, part.find_string("type"));
  if (!type) return missing(part.path_of("type"));
  const auto* known = std::ranges::find(kTextParts, *type, &TextPart::type);
  const bool is_text = known != kTextParts.end() && (purpose == ReadFor::kRouting || *type == "text");
  if (!is_text) {
    if (purpose == ReadFor::kRouting) return std::optional<std::string>();
    return fail(ErrorCode::kUnsupported,
                fmt::format("{}: parts of type \"{}\" are not supported by this server, only \"text\"",
                            part.path_of("type"), *type));
  }
  KVIST_TRY(const std::optional<std::string_view> text, part.find_string(known->field));
  if (!text) return missing(part.path_of(known->field));
  return std::optional(std::string(*text));
}

Result<void> read_parts(simdjson::dom::array parts, const std::string& path, ReadFor purpose, text::ChatMessage& into) {
  std::size_t index = 0;
  for (const JsonElement part : parts) {
    KVIST_TRY(std::optional<std::string> text, text_of_part(part, fmt::format("{}[{}]", path, index++), purpose));
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
  const std::string path = message.path_of("content");
  KVIST_TRY(const std::optional<JsonElement> element, message.find("content"));
  if (!element) {
    if (role == "assistant" || purpose == ReadFor::kRouting) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: required for role \"{}\", but missing or null", path, role));
  }
  std::string_view text;
  if (element->get(text) == simdjson::SUCCESS) {
    into.content = text;
    return {};
  }
  simdjson::dom::array parts;
  if (element->get(parts) != simdjson::SUCCESS)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected a string or an array of parts, got {}", path, kind_of(*element)));
  return read_parts(parts, path, purpose, into);
}

void read_reasoning(const JsonObject& message, text::ChatMessage& into) {
  if (into.role != "assistant") return;
  for (const std::string_view field : {"reasoning", "reasoning_content"}) {
    const Result<std::optional<JsonElement>> element = message.find(field);
    std::string_view text;
    if (!element || !*element || (*element)->get(text) != simdjson::SUCCESS) continue;
    into.reasoning = text;
    return;
  }
}

}  // namespace kvist::openai

#include "kvist/openai/tool_fields.h"

#include <optional>

namespace kvist::openai {
namespace {

// The text of a field; empty where there is none.
std::string text_of(const JsonObject& object, std::string_view field) {
  const Result<std::optional<JsonElement>> element = object.find(field);
  std::string_view text;
  if (!element || !*element || (*element)->get(text) != simdjson::SUCCESS) return {};
  return std::string(text);
}

std::optional<text::ToolCall> read_call(JsonElement element) {
  const Result<JsonObject> call = JsonObject::from(element, "tool_calls");
  if (!call) return std::nullopt;
  const Result<std::optional<JsonElement>> function_element = call->find("function");
  if (!function_element || !*function_element) return std::nullopt;
  const Result<JsonObject> function = JsonObject::from(**function_element, "function");
  if (!function) return std::nullopt;
  return text::ToolCall{
      .id = text_of(*call, "id"), .name = text_of(*function, "name"), .arguments = text_of(*function, "arguments")};
}

}  // namespace

std::string json_of(const JsonObject& request, std::string_view field) {
  const Result<std::optional<JsonElement>> element = request.find(field);
  if (!element || !*element) return {};
  return simdjson::minify(**element);
}

void read_tool_fields(const JsonObject& message, text::ChatMessage& into) {
  into.name = text_of(message, "name");
  into.tool_call_id = text_of(message, "tool_call_id");
  const Result<std::optional<JsonElement>> calls = message.find("tool_calls");
  simdjson::dom::array array;
  if (!calls || !*calls || (*calls)->get(array) != simdjson::SUCCESS) return;
  for (const JsonElement element : array)
    if (std::optional<text::ToolCall> call = read_call(element)) into.tool_calls.push_back(*std::move(call));
}

}  // namespace kvist::openai

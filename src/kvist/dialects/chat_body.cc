#include "kvist/dialects/chat_body.h"

#include <array>
#include <optional>
#include <utility>

namespace kvist::dialects {
namespace {

constexpr auto kSharedFields = std::to_array<std::string_view>(
    {"temperature", "top_p", "top_k", "min_p", "seed", "cache_salt", "priority", "ignore_eos", "min_tokens",
     "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "stop_token_ids",
     "skip_special_tokens", "include_stop_str_in_output", "chat_template_kwargs"});

bool is_empty(const JsonValue& value) {
  if (const auto array = value.if_array()) return array->empty();
  if (const auto object = value.if_object()) return object->size() == 0;
  if (const auto flag = value.if_bool()) return !*flag;
  return value.is_null() || value.if_string() == "";
}

}  // namespace

void ContentParts::add_text(std::string_view text) {
  if (parts_.empty()) only_text_ = text;
  JsonWriter json;
  json.begin_object().field("type", "text").field("text", text).end_object();
  parts_.push_back(json.take());
  is_one_text_ = parts_.size() == 1;
}

void ContentParts::add_image(std::string_view url) {
  is_one_text_ = false;
  JsonWriter json;
  json.begin_object().field("type", "image_url").key("image_url").begin_object().field("url", url);
  json.end_object().end_object();
  parts_.push_back(json.take());
}

void ContentParts::add_images(std::vector<std::string>& urls) {
  for (const std::string& url : urls) add_image(url);
  urls.clear();
}

void ContentParts::write(JsonWriter& json) {
  if (parts_.empty() || is_one_text_) {
    json.value(parts_.empty() ? std::string_view() : std::string_view(only_text_));
  } else {
    json.begin_array();
    for (const std::string& part : parts_) json.raw(part);
    json.end_array();
  }
  *this = {};
}

void AssistantTurn::add_call(std::string_view id, std::string_view name, std::string_view arguments) {
  JsonWriter json;
  json.begin_object().field("id", id).field("type", "function").key("function").begin_object();
  json.field("name", name).field("arguments", arguments).end_object().end_object();
  calls_.push_back(json.take());
}

void AssistantTurn::write(JsonWriter& json) {
  json.begin_object().field("role", "assistant").key("content");
  if (content_.empty() && !calls_.empty()) {
    json.null();
  } else {
    content_.write(json);
  }
  // vLLM reads the first, SGLang and older releases of vLLM the second.
  if (!reasoning_.empty()) json.field("reasoning", reasoning_).field("reasoning_content", reasoning_);
  if (!calls_.empty()) {
    json.key("tool_calls").begin_array();
    for (const std::string& call : calls_) json.raw(call);
    json.end_array();
  }
  json.end_object();
  *this = {};
}

void write_message(JsonWriter& json, std::string_view role, ContentParts& content) {
  json.begin_object().field("role", role).key("content");
  content.write(json);
  json.end_object();
}

void write_tool_result(JsonWriter& json, std::string_view call_id, ContentParts& content) {
  json.begin_object().field("role", "tool").field("tool_call_id", call_id).key("content");
  content.write(json);
  json.end_object();
}

void write_function(JsonWriter& json, std::string_view name, std::string_view description, std::string_view parameters,
                    std::string_view strict) {
  json.begin_object().field("type", "function").key("function").begin_object().field("name", name);
  if (!description.empty()) json.field("description", description);
  if (!parameters.empty()) json.key("parameters").raw(parameters);
  if (!strict.empty()) json.key("strict").raw(strict);
  json.end_object().end_object();
}

Result<void> write_tools(const JsonObject& request, JsonWriter& json,
                         Result<void> (*write_tool)(const JsonObject& tool, JsonWriter& json)) {
  KVIST_TRY(const std::optional<JsonArray> tools, request.find_array("tools", "an array of tools"));
  if (!tools || tools->empty()) return {};
  json.key("tools").begin_array();
  for (const JsonValue item : *tools) {
    KVIST_TRY(const JsonObject tool, item.as_object());
    KVIST_TRY_VOID(write_tool(tool, json));
  }
  json.end_array();
  return {};
}

bool has_tools(const JsonObject& request) {
  const std::optional<JsonValue> value = request.peek("tools");
  const std::optional<JsonArray> tools = value ? value->if_array() : std::nullopt;
  return tools && !tools->empty();
}

void write_named_choice(JsonWriter& json, std::string_view name) {
  json.key("tool_choice").begin_object().field("type", "function").key("function").begin_object();
  json.field("name", name).end_object().end_object();
}

void copy_shared_fields(const JsonObject& request, JsonWriter& json) {
  for (const std::string_view field : kSharedFields) {
    if (const std::optional<JsonValue> value = request.peek(field)) json.key(field).raw(value->minified());
  }
}

Result<void> write_stream(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const bool stream, request.bool_or("stream", false));
  json.field("stream", stream);
  if (stream) json.key("stream_options").begin_object().field("include_usage", true).end_object();
  return {};
}

Result<void> refuse(const JsonObject& request, std::string_view field, std::string_view why) {
  KVIST_TRY(const std::optional<JsonValue> value, request.find(field));
  if (!value || is_empty(*value)) return {};
  return value->unsupported(why);
}

}  // namespace kvist::dialects

#include "kvist/dialects/messages_request.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/dialects/chat_body.h"

namespace kvist::dialects {
namespace {

JsonRules rules() {
  return {.root = "body", .wrong = ErrorCode::kInvalidArgument};
}

Result<std::string_view> type_of(const JsonObject& block) {
  return block.require_string("type");
}

std::unexpected<Error> unknown_block(const JsonObject& block, std::string_view type, std::string_view where) {
  return block.error(ErrorCode::kUnsupported, "type",
                     fmt::format("{} is not supported {} by this gateway", in_quotes(type), where));
}

// An image as chat completions have it. A file of Anthropic's has no counterpart.
Result<std::string> url_of_image(const JsonObject& block) {
  KVIST_TRY(const JsonObject source, block.require_object("source"));
  KVIST_TRY(const std::string_view type, type_of(source));
  if (type == "url") {
    KVIST_TRY(const std::string_view url, source.require_string("url"));
    return std::string(url);
  }
  if (type != "base64") return unknown_block(source, type, "as the source of an image");
  KVIST_TRY(const std::string_view media, source.require_string("media_type"));
  KVIST_TRY(const std::string_view data, source.require_string("data"));
  return fmt::format("data:{};base64,{}", media, data);
}

// Text and images, which is what users give.
Result<void> read_plain_block(const JsonObject& block, std::string_view where, ContentParts& into) {
  KVIST_TRY(const std::string_view type, type_of(block));
  if (type == "text") {
    KVIST_TRY(const std::string_view text, block.require_string("text"));
    into.add_text(text);
    return {};
  }
  if (type != "image") return unknown_block(block, type, where);
  KVIST_TRY(const std::string url, url_of_image(block));
  into.add_image(url);
  return {};
}

// What a tool gave. A chat's message of a tool has text alone, so images are given to the user's next message.
Result<void> read_result(const JsonValue& value, ContentParts& texts, std::vector<std::string>& images) {
  if (const auto text = value.if_string()) {
    texts.add_text(*text);
    return {};
  }
  KVIST_TRY(const JsonArray blocks, value.as_array("a string or an array of blocks"));
  for (const JsonValue item : blocks) {
    KVIST_TRY(const JsonObject block, item.as_object());
    KVIST_TRY(const std::string_view type, type_of(block));
    if (type == "image") {
      KVIST_TRY(std::string url, url_of_image(block));
      images.push_back(std::move(url));
    } else {
      KVIST_TRY_VOID(read_plain_block(block, "in a tool_result", texts));
    }
  }
  return {};
}

// Claude Code begins its system prompt with a line for Anthropic's accounting, a part of which is new in every request.
// Anthropic's servers take it out. If it stayed, no cache would have anything of the next prompt.
std::string_view without_accounting(std::string_view text) {
  if (!text.starts_with("x-anthropic-billing-header:")) return text;
  const std::size_t end = text.find('\n');
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

// The system prompt, or a message of the system amid the others; nothing if it is empty.
Result<void> write_system(const JsonValue& value, std::string_view where, JsonWriter& json) {
  ContentParts content;
  const auto add = [&](std::string_view given) {
    const std::string_view rest = without_accounting(given);
    if (!rest.empty() || given.empty()) content.add_text(rest);
  };
  if (const auto text = value.if_string()) {
    add(*text);
  } else {
    KVIST_TRY(const JsonArray blocks, value.as_array("a string or an array of blocks"));
    for (const JsonValue item : blocks) {
      KVIST_TRY(const JsonObject block, item.as_object());
      KVIST_TRY(const std::string_view type, type_of(block));
      if (type != "text") return unknown_block(block, type, where);
      KVIST_TRY(const std::string_view of_block, block.require_string("text"));
      add(of_block);
    }
  }
  if (!content.empty()) write_message(json, "system", content);
  return {};
}

Result<void> write_result(const JsonObject& block, std::vector<std::string>& images, JsonWriter& json) {
  KVIST_TRY(const std::string_view id, block.require_string("tool_use_id"));
  ContentParts content;
  KVIST_TRY(const std::optional<JsonValue> value, block.find("content"));
  if (value) KVIST_TRY_VOID(read_result(*value, content, images));
  write_tool_result(json, id, content);
  return {};
}

// Results of tools are messages of their own in chat completions.
Result<void> write_user(const JsonValue& value, JsonWriter& json) {
  ContentParts content;
  if (const auto text = value.if_string()) {
    content.add_text(*text);
    write_message(json, "user", content);
    return {};
  }
  KVIST_TRY(const JsonArray blocks, value.as_array("a string or an array of blocks"));
  std::vector<std::string> images;  // of results
  for (const JsonValue item : blocks) {
    KVIST_TRY(const JsonObject block, item.as_object());
    KVIST_TRY(const std::string_view type, type_of(block));
    if (type != "tool_result") {
      content.add_images(images);
      KVIST_TRY_VOID(read_plain_block(block, "in a message of the user", content));
      continue;
    }
    if (!content.empty()) write_message(json, "user", content);
    KVIST_TRY_VOID(write_result(block, images, json));
  }
  content.add_images(images);
  if (!content.empty() || blocks.empty()) write_message(json, "user", content);
  return {};
}

Result<void> read_assistant_block(const JsonObject& block, AssistantTurn& into) {
  KVIST_TRY(const std::string_view type, type_of(block));
  if (type == "redacted_thinking") return {};  // encrypted; nobody here could read it
  if (type == "text") {
    KVIST_TRY(const std::string_view text, block.require_string("text"));
    into.content().add_text(text);
    return {};
  }
  if (type == "thinking") {
    KVIST_TRY(const std::string_view text, block.require_string("thinking"));
    into.add_reasoning(text);
    return {};
  }
  if (type != "tool_use") return unknown_block(block, type, "in a message of the assistant");
  KVIST_TRY(const std::string_view id, block.require_string("id"));
  KVIST_TRY(const std::string_view name, block.require_string("name"));
  KVIST_TRY(const JsonObject input, block.require_object("input"));
  into.add_call(id, name, input.value().minified());
  return {};
}

Result<void> write_assistant(const JsonValue& value, JsonWriter& json) {
  AssistantTurn turn;
  if (const auto text = value.if_string()) {
    turn.content().add_text(*text);
  } else {
    KVIST_TRY(const JsonArray blocks, value.as_array("a string or an array of blocks"));
    for (const JsonValue item : blocks) {
      KVIST_TRY(const JsonObject block, item.as_object());
      KVIST_TRY_VOID(read_assistant_block(block, turn));
    }
  }
  turn.write(json);
  return {};
}

// Returns the role.
Result<std::string_view> write_one_message(const JsonValue& value, JsonWriter& json) {
  KVIST_TRY(const JsonObject message, value.as_object());
  KVIST_TRY(const std::string_view role, message.require_string("role"));
  KVIST_TRY(const JsonValue content, message.require("content"));
  if (role == "user") {
    KVIST_TRY_VOID(write_user(content, json));
  } else if (role == "assistant") {
    KVIST_TRY_VOID(write_assistant(content, json));
  } else if (role == "system") {
    KVIST_TRY_VOID(write_system(content, "in a message of the system", json));
  } else {
    return message.wrong("role", fmt::format(R"(expected "user", "assistant" or "system", got {})", in_quotes(role)));
  }
  return role;
}

// An answer goes on with a last message of the assistant.
Result<void> write_messages(const JsonObject& request, JsonWriter& json) {
  json.key("messages").begin_array();
  KVIST_TRY(const std::optional<JsonValue> system, request.find("system"));
  if (system) {
    KVIST_TRY_VOID(write_system(*system, "in the system prompt", json));
  }
  KVIST_TRY(const JsonArray messages, request.require_array("messages", "an array of messages"));
  if (messages.empty()) return messages.value().wrong("expected at least one message, got none");
  std::string_view last;
  for (const JsonValue message : messages) {
    KVIST_TRY(last, write_one_message(message, json));
  }
  json.end_array();
  if (last == "assistant") json.field("add_generation_prompt", false).field("continue_final_message", true);
  return {};
}

Result<void> write_tool(const JsonObject& tool, JsonWriter& json) {
  KVIST_TRY(const std::optional<std::string_view> type, tool.find_string("type"));
  if (type && *type != "custom")
    return unknown_block(tool, *type, "as a tool: it runs at Anthropic's servers. Only \"custom\" is");
  KVIST_TRY(const std::string_view name, tool.require_string("name"));
  KVIST_TRY(const std::optional<std::string_view> description, tool.find_string("description"));
  KVIST_TRY(const JsonObject schema, tool.require_object("input_schema"));
  KVIST_TRY(const std::optional<bool> strict, tool.find_bool("strict"));
  write_function(json, name, description.value_or(""), schema.value().minified(),
                 !strict ? "" : (*strict ? "true" : "false"));
  return {};
}

Result<void> write_tool_choice(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const std::optional<JsonObject> choice, request.find_object("tool_choice"));
  if (!choice) return {};
  KVIST_TRY(const std::string_view type, type_of(*choice));
  if (type == "tool") {
    KVIST_TRY(const std::string_view name, choice->require_string("name"));
    write_named_choice(json, name);
  } else if (type == "auto" || type == "none") {
    if (!has_tools(request)) return {};
    json.field("tool_choice", type);
  } else if (type == "any") {
    json.field("tool_choice", "required");
  } else {
    return choice->wrong("type", fmt::format(R"(expected "auto", "any", "tool" or "none", got {})", in_quotes(type)));
  }
  KVIST_TRY(const bool one_at_a_time, choice->bool_or("disable_parallel_tool_use", false));
  if (one_at_a_time) json.field("parallel_tool_calls", false);
  return {};
}

Result<void> write_stops(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const std::optional<JsonArray> stops, request.find_array("stop_sequences", "an array of strings"));
  if (stops && !stops->empty()) json.key("stop").raw(stops->value().minified());
  return {};
}

// The user's id keeps the requests of one client together in routing.
Result<void> write_user_id(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const std::optional<JsonObject> metadata, request.find_object("metadata"));
  if (!metadata) return {};
  KVIST_TRY(const std::optional<std::string_view> user, metadata->find_string("user_id"));
  if (user && !user->empty()) json.field("user", *user);
  return {};
}

// The form and the effort of the answer.
Result<void> write_output_config(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const std::optional<JsonObject> config, request.find_object("output_config"));
  if (!config) return {};
  KVIST_TRY(const std::optional<std::string_view> effort, config->find_string("effort"));
  if (effort) json.field("reasoning_effort", *effort);
  KVIST_TRY(const std::optional<JsonObject> format, config->find_object("format"));
  if (!format) return {};
  KVIST_TRY(const std::string_view type, type_of(*format));
  if (type != "json_schema") return unknown_block(*format, type, "as the form of an answer");
  KVIST_TRY(const JsonObject schema, format->require_object("schema"));
  json.key("response_format").begin_object().field("type", "json_schema").key("json_schema").begin_object();
  json.field("name", "answer").field("strict", true).key("schema").raw(schema.value().minified());
  json.end_object().end_object();
  return {};
}

Result<void> refuse_unsupported(const JsonObject& request) {
  KVIST_TRY_VOID(refuse(request, "container", "code is not run by this gateway"));
  KVIST_TRY_VOID(refuse(request, "mcp_servers", "MCP servers are not called by this gateway; give their tools"));
  return {};
}

Result<void> write_model(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const std::string_view model, request.require_string("model"));
  json.field("model", model);
  return {};
}

// What a chat and the count of its tokens have in common.
Result<void> write_prompt(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY_VOID(write_model(request, json));
  KVIST_TRY_VOID(write_messages(request, json));
  KVIST_TRY_VOID(write_tools(request, json, write_tool));
  return refuse_unsupported(request);
}

}  // namespace

Result<std::string> chat_of_messages(std::string_view body) {
  JsonDocument document(rules());
  KVIST_TRY(const JsonObject request, document.parse_object(body));
  JsonWriter json;
  json.begin_object();
  KVIST_TRY_VOID(write_prompt(request, json));
  KVIST_TRY(const std::uint64_t most,
            request.require_unsigned("max_tokens", 1, std::numeric_limits<std::int32_t>::max()));
  json.field("max_tokens", most);
  KVIST_TRY_VOID(write_tool_choice(request, json));
  KVIST_TRY_VOID(write_stops(request, json));
  KVIST_TRY_VOID(write_user_id(request, json));
  KVIST_TRY_VOID(write_output_config(request, json));
  KVIST_TRY_VOID(write_stream(request, json));
  copy_shared_fields(request, json);
  json.end_object();
  return json.take();
}

Result<std::string> tokenize_of_messages(std::string_view body) {
  JsonDocument document(rules());
  KVIST_TRY(const JsonObject request, document.parse_object(body));
  JsonWriter json;
  json.begin_object();
  KVIST_TRY_VOID(write_prompt(request, json));
  json.end_object();
  return json.take();
}

}  // namespace kvist::dialects

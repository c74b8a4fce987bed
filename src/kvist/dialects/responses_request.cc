#include "kvist/dialects/responses_request.h"

#include <fmt/format.h>

#include <array>
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

std::unexpected<Error> unknown_type(const JsonObject& object, std::string_view type, std::string_view where) {
  return object.error(ErrorCode::kUnsupported, "type",
                      fmt::format("{} is not supported {} by this gateway", in_quotes(type), where));
}

// `images` gets the images in place of `into`, if it is there.
Result<void> read_part(const JsonObject& part, ContentParts& into, std::vector<std::string>* images) {
  KVIST_TRY(const std::string_view type, part.require_string("type"));
  if (type == "input_text" || type == "output_text" || type == "text") {
    KVIST_TRY(const std::string_view text, part.require_string("text"));
    into.add_text(text);
    return {};
  }
  if (type == "refusal") {
    KVIST_TRY(const std::string_view text, part.require_string("refusal"));
    into.add_text(text);
    return {};
  }
  if (type != "input_image") return unknown_type(part, type, "in a content");
  KVIST_TRY(const std::optional<std::string_view> url, part.find_string("image_url"));
  if (!url) return part.error(ErrorCode::kUnsupported, "image_url", "required: this gateway stores no files");
  if (images != nullptr) {
    images->emplace_back(*url);
  } else {
    into.add_image(*url);
  }
  return {};
}

Result<void> read_content(const JsonValue& value, ContentParts& into, std::vector<std::string>* images = nullptr) {
  if (const auto text = value.if_string()) {
    into.add_text(*text);
    return {};
  }
  KVIST_TRY(const JsonArray parts, value.as_array("a string or an array of parts"));
  for (const JsonValue item : parts) {
    KVIST_TRY(const JsonObject part, item.as_object());
    KVIST_TRY_VOID(read_part(part, into, images));
  }
  return {};
}

/// Writes input items as messages. What the assistant thought, said and called in successive items is one message.
class InputWriter {
 public:
  explicit InputWriter(JsonWriter& json) : json_(json) {}

  Result<void> add(const JsonValue& value) {
    KVIST_TRY(const JsonObject item, value.as_object());
    KVIST_TRY(const std::optional<std::string_view> type, item.find_string("type"));
    if (type == "function_call_output") return add_output(item);
    end_results();
    if (!type || *type == "message") return add_message(item);
    if (*type == "function_call") return add_call(item);
    if (*type == "reasoning") return add_reasoning(item);
    if (*type == "item_reference")
      return item.error(ErrorCode::kUnsupported, "type", "this gateway stores no items; give the item itself");
    return unknown_type(item, *type, "in the input");
  }
  void end() {
    end_turn();
    end_results();
  }

 private:
  void end_turn() {
    if (!turn_.empty()) turn_.write(json_);
  }
  // A chat's message of a tool has text alone, so the user shows the images.
  void end_results() {
    ContentParts shown;
    shown.add_images(images_);
    if (!shown.empty()) write_message(json_, "user", shown);
  }

  Result<void> add_message(const JsonObject& item) {
    KVIST_TRY(const std::string_view role, item.require_string("role"));
    KVIST_TRY(const JsonValue content, item.require("content"));
    if (role == "assistant") {
      if (!turn_.content().empty()) end_turn();
      return read_content(content, turn_.content());
    }
    if (role != "user" && role != "system" && role != "developer")
      return item.wrong(
          "role", fmt::format(R"(expected "user", "assistant", "system" or "developer", got {})", in_quotes(role)));
    end_turn();
    ContentParts parts;
    KVIST_TRY_VOID(read_content(content, parts));
    write_message(json_, role, parts);
    return {};
  }

  Result<void> add_call(const JsonObject& item) {
    KVIST_TRY(const std::string_view id, item.require_string("call_id"));
    KVIST_TRY(const std::string_view name, item.require_string("name"));
    KVIST_TRY(const std::string_view arguments, item.require_string("arguments"));
    turn_.add_call(id, name, arguments);
    return {};
  }

  Result<void> add_output(const JsonObject& item) {
    end_turn();
    KVIST_TRY(const std::string_view id, item.require_string("call_id"));
    KVIST_TRY(const JsonValue output, item.require("output"));
    ContentParts parts;
    KVIST_TRY_VOID(read_content(output, parts, &images_));
    write_tool_result(json_, id, parts);
    return {};
  }

  // What is encrypted nobody here could read.
  Result<void> add_reasoning(const JsonObject& item) {
    KVIST_TRY(const std::optional<JsonArray> parts, item.find_array("content", "an array of parts"));
    if (!parts) return {};
    if (!turn_.empty()) end_turn();
    for (const JsonValue value : *parts) {
      KVIST_TRY(const JsonObject part, value.as_object());
      KVIST_TRY(const std::string_view text, part.require_string("text"));
      turn_.add_reasoning(text);
    }
    return {};
  }

  JsonWriter& json_;
  AssistantTurn turn_;
  std::vector<std::string> images_;  // of results
};

Result<void> write_messages(const JsonObject& request, JsonWriter& json) {
  json.key("messages").begin_array();
  KVIST_TRY(const std::optional<std::string_view> instructions, request.find_string("instructions"));
  ContentParts content;
  if (instructions && !instructions->empty()) {
    content.add_text(*instructions);
    write_message(json, "system", content);
  }
  KVIST_TRY(const JsonValue input, request.require("input"));
  if (const auto text = input.if_string()) {
    content.add_text(*text);
    write_message(json, "user", content);
  } else {
    KVIST_TRY(const JsonArray items, input.as_array("a string or an array of items"));
    if (items.empty()) return input.wrong("expected at least one item, got none");
    InputWriter writer(json);
    for (const JsonValue item : items) KVIST_TRY_VOID(writer.add(item));
    writer.end();
  }
  json.end_array();
  return {};
}

Result<void> write_tool(const JsonObject& tool, JsonWriter& json) {
  KVIST_TRY(const std::string_view type, tool.require_string("type"));
  if (type != "function")
    return unknown_type(tool, type, "as a tool: it runs at OpenAI's servers. Only \"function\" is");
  KVIST_TRY(const std::string_view name, tool.require_string("name"));
  KVIST_TRY(const std::optional<std::string_view> description, tool.find_string("description"));
  KVIST_TRY(const std::optional<JsonObject> parameters, tool.find_object("parameters"));
  KVIST_TRY(const std::optional<bool> strict, tool.find_bool("strict"));
  write_function(json, name, description.value_or(""), parameters ? parameters->value().minified() : "",
                 !strict ? "" : (*strict ? "true" : "false"));
  return {};
}

Result<void> write_tool_choice(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const std::optional<bool> parallel, request.find_bool("parallel_tool_calls"));
  if (parallel && has_tools(request)) json.field("parallel_tool_calls", *parallel);
  KVIST_TRY(const std::optional<JsonValue> value, request.find("tool_choice"));
  if (!value) return {};
  if (const auto word = value->if_string()) {
    if (*word != "auto" && *word != "none" && *word != "required")
      return value->wrong(fmt::format(R"(expected "auto", "none" or "required", got {})", in_quotes(*word)));
    if (*word == "required" || has_tools(request)) json.field("tool_choice", *word);
    return {};
  }
  KVIST_TRY(const JsonObject choice, value->as_object());
  KVIST_TRY(const std::string_view type, choice.require_string("type"));
  if (type != "function") return unknown_type(choice, type, "as the choice of a tool");
  KVIST_TRY(const std::string_view name, choice.require_string("name"));
  write_named_choice(json, name);
  return {};
}

Result<void> write_schema(const JsonObject& format, JsonWriter& json) {
  KVIST_TRY(const std::string_view name, format.require_string("name"));
  KVIST_TRY(const JsonObject schema, format.require_object("schema"));
  KVIST_TRY(const bool strict, format.bool_or("strict", false));
  json.key("response_format").begin_object().field("type", "json_schema").key("json_schema").begin_object();
  json.field("name", name).field("strict", strict).key("schema").raw(schema.value().minified());
  json.end_object().end_object();
  return {};
}

// The form of the answer, and how much the model thinks.
Result<void> write_form(const JsonObject& request, JsonWriter& json) {
  KVIST_TRY(const std::optional<JsonObject> reasoning, request.find_object("reasoning"));
  if (reasoning) {
    KVIST_TRY(const std::optional<std::string_view> effort, reasoning->find_string("effort"));
    if (effort) json.field("reasoning_effort", *effort);
  }
  KVIST_TRY(const std::optional<JsonObject> text, request.find_object("text"));
  if (!text) return {};
  KVIST_TRY(const std::optional<JsonObject> format, text->find_object("format"));
  if (!format) return {};
  KVIST_TRY(const std::string_view type, format->require_string("type"));
  if (type == "text") return {};
  if (type == "json_schema") return write_schema(*format, json);
  if (type != "json_object") return unknown_type(*format, type, "as the form of an answer");
  json.key("response_format").begin_object().field("type", type).end_object();
  return {};
}

Result<void> refuse_unsupported(const JsonObject& request) {
  constexpr std::string_view kStateless = "this gateway stores no responses; send the whole conversation as input";
  KVIST_TRY_VOID(refuse(request, "previous_response_id", kStateless));
  KVIST_TRY_VOID(refuse(request, "conversation", kStateless));
  KVIST_TRY_VOID(refuse(request, "store", "this gateway stores no responses; leave it out or give false"));
  KVIST_TRY_VOID(refuse(request, "background", "a response that nobody waits for would have to be stored"));
  KVIST_TRY_VOID(refuse(request, "prompt", "this gateway stores no prompt templates; give instructions and input"));
  KVIST_TRY_VOID(refuse(request, "max_tool_calls", "it bounds tools that run at the server, of which there are none"));
  KVIST_TRY(const std::optional<std::string_view> truncation, request.find_string("truncation"));
  if (truncation && *truncation != "disabled")
    return request.error(ErrorCode::kUnsupported, "truncation", "this gateway shortens no input; give \"disabled\"");
  KVIST_TRY(const std::optional<std::uint64_t> logprobs, request.find_unsigned("top_logprobs", 0, 20));
  if (logprobs.value_or(0) > 0)
    return request.error(ErrorCode::kUnsupported, "top_logprobs",
                         "not supported by this gateway; use chat completions");
  return {};
}

void write_session(const JsonObject& request, JsonWriter& json) {
  for (const std::string_view field : {"user", "prompt_cache_key"}) {
    const std::optional<JsonValue> value = request.peek(field);
    if (value && value->if_string()) json.field(field, *value->if_string());
  }
}

struct EchoedField {
  std::string_view name;
  std::string_view otherwise;  // JSON, where the request does not have it
};
constexpr auto kEchoed = std::to_array<EchoedField>({{"instructions", "null"},
                                                     {"max_output_tokens", "null"},
                                                     {"max_tool_calls", "null"},
                                                     {"parallel_tool_calls", "true"},
                                                     {"previous_response_id", "null"},
                                                     {"prompt_cache_key", "null"},
                                                     {"reasoning", R"({"effort":null,"summary":null})"},
                                                     {"safety_identifier", "null"},
                                                     {"temperature", "1.0"},
                                                     {"text", R"({"format":{"type":"text"}})"},
                                                     {"tool_choice", R"("auto")"},
                                                     {"tools", "[]"},
                                                     {"top_logprobs", "0"},
                                                     {"top_p", "1.0"},
                                                     {"user", "null"},
                                                     {"metadata", "{}"}});

std::string echo_of(const JsonObject& request) {
  std::string out = R"("background":false,"store":false,"truncation":"disabled","service_tier":"default")";
  for (const auto& [name, otherwise] : kEchoed) {
    const std::optional<JsonValue> value = request.peek(name);
    out += fmt::format(R"(,"{}":{})", name, value ? value->minified() : std::string(otherwise));
  }
  return out;
}

}  // namespace

Result<ResponsesRequest> chat_of_responses(std::string_view body) {
  JsonDocument document({.root = "body", .wrong = ErrorCode::kInvalidArgument});
  KVIST_TRY(const JsonObject request, document.parse_object(body));
  JsonWriter json;
  json.begin_object();
  KVIST_TRY(const std::string_view model, request.require_string("model"));
  json.field("model", model);
  KVIST_TRY_VOID(refuse_unsupported(request));
  KVIST_TRY_VOID(write_messages(request, json));
  KVIST_TRY(const std::optional<std::uint64_t> most,
            request.find_unsigned("max_output_tokens", 1, std::numeric_limits<std::int32_t>::max()));
  if (most) json.field("max_tokens", *most);
  KVIST_TRY_VOID(write_tools(request, json, write_tool));
  KVIST_TRY_VOID(write_tool_choice(request, json));
  KVIST_TRY_VOID(write_form(request, json));
  write_session(request, json);
  KVIST_TRY_VOID(write_stream(request, json));
  copy_shared_fields(request, json);
  json.end_object();
  return ResponsesRequest{.chat = json.take(), .echo = echo_of(request)};
}

}  // namespace kvist::dialects

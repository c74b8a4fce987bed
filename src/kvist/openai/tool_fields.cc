#include "kvist/openai/tool_fields.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace kvist::openai {
namespace {

// The text of a field; empty if there is none.
std::string text_of(const JsonObject& object, std::string_view field) {
  const std::optional<JsonValue> value = object.peek(field);
  return std::string(value ? value->if_string().value_or("") : "");
}

// The field as JSON text; empty if it is absent or null, or given twice.
std::string json_of(const JsonObject& request, std::string_view field) {
  const std::optional<JsonValue> value = request.peek(field);
  return value ? value->minified() : std::string();
}

// {"function": {...}}: the content of the inner object.
std::optional<JsonObject> function_of(const JsonObject& object) {
  const std::optional<JsonValue> function = object.peek("function");
  return function ? function->if_object() : std::nullopt;
}

std::optional<text::ToolCall> find_call(const JsonValue& value) {
  const std::optional<JsonObject> call = value.if_object();
  const std::optional<JsonObject> function = call ? function_of(*call) : std::nullopt;
  if (!function) return std::nullopt;
  return text::ToolCall{
      .id = text_of(*call, "id"), .name = text_of(*function, "name"), .arguments = text_of(*function, "arguments")};
}

void find_tool_fields(const JsonObject& message, text::ChatMessage& into) {
  into.name = text_of(message, "name");
  into.tool_call_id = text_of(message, "tool_call_id");
  const std::optional<JsonValue> value = message.peek("tool_calls");
  const std::optional<JsonArray> calls = value ? value->if_array() : std::nullopt;
  if (!calls) return;
  for (const JsonValue item : *calls)
    if (std::optional<text::ToolCall> call = find_call(item)) into.tool_calls.push_back(*std::move(call));
}

// "type": "function" may be missing; the object under "function" may not.
Result<JsonObject> require_function(const JsonObject& object) {
  KVIST_TRY(const std::optional<std::string_view> type, object.find_string("type"));
  if (type && *type != "function") {
    return object.error(ErrorCode::kUnsupported, "type",
                        fmt::format("\"{}\" is not supported by this server, only \"function\"", *type));
  }
  return object.require_object("function");
}

Result<text::ToolCall> read_call(const JsonValue& value) {
  KVIST_TRY(const JsonObject call, value.as_object());
  KVIST_TRY(const JsonObject function, require_function(call));
  KVIST_TRY(const std::optional<std::string_view> id, call.find_string("id"));
  KVIST_TRY(const std::string_view name, function.require_string("name"));
  KVIST_TRY(const std::string_view arguments, function.require_string("arguments"));
  return text::ToolCall{
      .id = std::string(id.value_or("")), .name = std::string(name), .arguments = std::string(arguments)};
}

// A function with vLLM's members in vLLM's order, with null for optional ones that are missing. Templates write tools
// as JSON, so order and nulls are a part of the prompt. Nothing if the function is invalid.
std::optional<std::string> written_tool(const JsonValue& value) {
  const std::optional<JsonObject> tool = value.if_object();
  const std::optional<JsonObject> function = tool ? function_of(*tool) : std::nullopt;
  if (!function || json_of(*function, "name").empty()) return std::nullopt;
  const auto or_null = [&](std::string_view field) {
    std::string json = json_of(*function, field);
    return json.empty() ? std::string("null") : json;
  };
  const std::string strict = json_of(*function, "strict");
  return fmt::format(R"({{"type":"function","function":{{"name":{},"description":{},"parameters":{}{}}}}})",
                     json_of(*function, "name"), or_null("description"), or_null("parameters"),
                     strict.empty() ? "" : R"(,"strict":)" + strict);
}

// The tools as templates see them. Invalid ones are kept unchanged; the worker will refuse them.
std::string written_tools(const JsonArray& tools) {
  std::string out = "[";
  for (const JsonValue tool : tools) {
    if (out.size() > 1) out += ',';
    std::optional<std::string> written = written_tool(tool);
    out += written ? *std::move(written) : tool.minified();
  }
  return out + ']';
}

std::string find_tools(const JsonObject& request) {
  const std::optional<JsonValue> value = request.peek("tools");
  if (!value) return {};
  const std::optional<JsonArray> tools = value->if_array();
  return tools ? written_tools(*tools) : value->minified();
}

// Its name and that it is a function are checked for the template.
Result<std::string> read_tools(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonArray> tools, request.find_array("tools", "an array of tools"));
  if (!tools || tools->empty()) return std::string();
  if (tools->size() > kMaxTools) {
    return tools->value().wrong(fmt::format("{} of them, at most {} are allowed", tools->size(), kMaxTools));
  }
  for (const JsonValue item : *tools) {
    KVIST_TRY(const JsonObject tool, item.as_object());
    KVIST_TRY(const JsonObject function, require_function(tool));
    KVIST_TRY(const std::string_view name, function.require_string("name"));
    if (name.empty()) return function.wrong("name", "is empty");
  }
  return written_tools(*tools);
}

Result<std::string> read_documents(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonArray> documents, request.find_array("documents", "an array of documents"));
  if (!documents || documents->empty()) return std::string();
  for (const JsonValue document : *documents) KVIST_TRY_VOID(document.as_object());
  return documents->value().minified();
}

Result<std::string> read_template_arguments(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonObject> arguments, request.find_object("chat_template_kwargs"));
  return !arguments || arguments->size() == 0 ? std::string() : arguments->value().minified();
}

Result<std::optional<bool>> read_flag(const JsonObject& request, std::string_view field, ReadFor purpose) {
  if (purpose == ReadFor::kAnswer) return request.find_bool(field);
  const std::optional<JsonValue> value = request.peek(field);
  return value ? value->if_bool() : std::nullopt;
}

}  // namespace

Result<void> read_tool_fields(const JsonObject& message, ReadFor purpose, text::ChatMessage& into) {
  if (purpose == ReadFor::kRouting) {
    find_tool_fields(message, into);
    return {};
  }
  KVIST_TRY(const std::optional<std::string_view> name, message.find_string("name"));
  KVIST_TRY(const std::optional<std::string_view> answered, message.find_string("tool_call_id"));
  into.name = name.value_or("");
  into.tool_call_id = answered.value_or("");
  KVIST_TRY(const std::optional<JsonArray> calls, message.find_array("tool_calls", "an array of calls"));
  if (!calls) return {};
  for (const JsonValue item : *calls) {
    KVIST_TRY(text::ToolCall call, read_call(item));
    into.tool_calls.push_back(std::move(call));
  }
  if (!into.tool_calls.empty() && into.role != "assistant")
    return calls->value().wrong("only the assistant calls tools");
  return {};
}

Result<void> read_prompt_fields(const JsonObject& request, ReadFor purpose, ChatPrompt& into) {
  if (purpose == ReadFor::kRouting) {
    into.tools = find_tools(request);
    into.documents = json_of(request, "documents");
    into.template_arguments = json_of(request, "chat_template_kwargs");
    into.reasoning_effort = text_of(request, "reasoning_effort");
  } else {
    KVIST_TRY(into.tools, read_tools(request));
    KVIST_TRY(into.documents, read_documents(request));
    KVIST_TRY(into.template_arguments, read_template_arguments(request));
    KVIST_TRY(const std::optional<std::string_view> effort, request.find_string("reasoning_effort"));
    into.reasoning_effort = effort.value_or("");
  }
  KVIST_TRY(const std::optional<bool> goes_on, read_flag(request, "continue_final_message", purpose));
  KVIST_TRY(const std::optional<bool> header, read_flag(request, "add_generation_prompt", purpose));
  into.continue_final_message = goes_on.value_or(false);
  into.add_generation_prompt = header.value_or(!into.continue_final_message);
  if (into.continue_final_message && into.add_generation_prompt)
    return fail(ErrorCode::kInvalidArgument,
                "continue_final_message: cannot be true together with add_generation_prompt: the answer either goes "
                "on with the last message or begins one of its own");
  return {};
}

Result<void> read_tool_choice(const JsonObject& request, ChatRequest& into) {
  into.may_call_tools = !into.tools.empty();
  KVIST_TRY(const std::optional<bool> parallel, request.find_bool("parallel_tool_calls"));
  into.several_calls = parallel.value_or(true);
  KVIST_TRY(const std::optional<JsonValue> value, request.find("tool_choice"));
  if (!value) return {};
  const std::optional<std::string_view> choice = value->if_string();
  if (choice == "auto") return {};
  if (choice == "none") {
    into.may_call_tools = false;
    return {};
  }
  if (choice == "required" || value->if_object()) {
    return value->wrong(
        fmt::format("{} needs constrained output, which this server does not have; give \"auto\" or \"none\"",
                    choice ? "\"required\"" : "a named tool"));
  }
  return value->expected(R"("auto" or "none")");
}

}  // namespace kvist::openai

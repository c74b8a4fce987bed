#include "kvist/openai/tool_fields.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace kvist::openai {
namespace {

// The text of a field; empty if there is none.
std::string text_of(const JsonObject& object, std::string_view field) {
  const Result<std::optional<JsonElement>> element = object.find(field);
  std::string_view text;
  if (!element || !*element || (*element)->get(text) != simdjson::SUCCESS) return {};
  return std::string(text);
}

// The field as JSON text; empty if it is absent or null, or given twice.
std::string json_of(const JsonObject& request, std::string_view field) {
  const Result<std::optional<JsonElement>> element = request.find(field);
  if (!element || !*element) return {};
  return simdjson::minify(**element);
}

std::optional<text::ToolCall> find_call(JsonElement element) {
  const Result<JsonObject> call = JsonObject::from(element, "tool_calls");
  if (!call) return std::nullopt;
  const Result<std::optional<JsonElement>> function_element = call->find("function");
  if (!function_element || !*function_element) return std::nullopt;
  const Result<JsonObject> function = JsonObject::from(**function_element, "function");
  if (!function) return std::nullopt;
  return text::ToolCall{
      .id = text_of(*call, "id"), .name = text_of(*function, "name"), .arguments = text_of(*function, "arguments")};
}

void find_tool_fields(const JsonObject& message, text::ChatMessage& into) {
  into.name = text_of(message, "name");
  into.tool_call_id = text_of(message, "tool_call_id");
  const Result<std::optional<JsonElement>> calls = message.find("tool_calls");
  simdjson::dom::array array;
  if (!calls || !*calls || (*calls)->get(array) != simdjson::SUCCESS) return;
  for (const JsonElement element : array)
    if (std::optional<text::ToolCall> call = find_call(element)) into.tool_calls.push_back(*std::move(call));
}

Result<std::string> require_text(const JsonObject& object, std::string_view field) {
  KVIST_TRY(const std::optional<std::string_view> text, object.find_string(field));
  if (!text) return fail(ErrorCode::kInvalidArgument, fmt::format("{}: required, but missing", object.path_of(field)));
  return std::string(*text);
}

// "type": "function" may be missing; the object under "function" may not.
Result<JsonObject> require_function(JsonElement element, std::string path) {
  KVIST_TRY(const JsonObject object, JsonObject::from(element, std::move(path)));
  KVIST_TRY(const std::optional<std::string_view> type, object.find_string("type"));
  if (type && *type != "function") {
    return fail(ErrorCode::kUnsupported, fmt::format("{}: \"{}\" is not supported by this server, only \"function\"",
                                                     object.path_of("type"), *type));
  }
  KVIST_TRY(const std::optional<JsonElement> function, object.find("function"));
  if (!function)
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: required, but missing", object.path_of("function")));
  return JsonObject::from(*function, object.path_of("function"));
}

Result<text::ToolCall> read_call(JsonElement element, const std::string& path) {
  KVIST_TRY(const JsonObject function, require_function(element, path));
  KVIST_TRY(const JsonObject call, JsonObject::from(element, path));
  KVIST_TRY(const std::optional<std::string_view> id, call.find_string("id"));
  KVIST_TRY(std::string name, require_text(function, "name"));
  KVIST_TRY(std::string arguments, require_text(function, "arguments"));
  return text::ToolCall{.id = std::string(id.value_or("")), .name = std::move(name), .arguments = std::move(arguments)};
}

Result<simdjson::dom::array> array_of(JsonElement element, std::string_view path, std::string_view what) {
  simdjson::dom::array array;
  if (element.get(array) != simdjson::SUCCESS) return unexpected_value(path, what, element);
  return array;
}

// A function with vLLM's members in vLLM's order, with null for optional ones that are missing. Templates write tools
// as JSON, so order and nulls are a part of the prompt. Nothing if the function is invalid.
std::optional<std::string> written_tool(JsonElement element) {
  const Result<JsonObject> tool = JsonObject::from(element, "tool");
  if (!tool) return std::nullopt;
  const Result<std::optional<JsonElement>> function_element = tool->find("function");
  if (!function_element || !*function_element) return std::nullopt;
  const Result<JsonObject> function = JsonObject::from(**function_element, "function");
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
std::string written_tools(simdjson::dom::array tools) {
  std::string out = "[";
  for (const JsonElement tool : tools) {
    if (out.size() > 1) out += ',';
    out += written_tool(tool).value_or(simdjson::minify(tool));
  }
  return out + ']';
}

std::string find_tools(const JsonObject& request) {
  const Result<std::optional<JsonElement>> element = request.find("tools");
  if (!element || !*element) return {};
  simdjson::dom::array tools;
  return (*element)->get(tools) == simdjson::SUCCESS ? written_tools(tools) : std::string(simdjson::minify(**element));
}

// Its name and that it is a function are checked for the template.
Result<std::string> read_tools(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonElement> element, request.find("tools"));
  if (!element) return std::string();
  KVIST_TRY(const simdjson::dom::array tools, array_of(*element, "tools", "an array of tools"));
  if (tools.size() > kMaxTools)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("tools: {} of them, at most {} are allowed", tools.size(), kMaxTools));
  std::size_t index = 0;
  for (const JsonElement tool : tools) {
    KVIST_TRY(const JsonObject function, require_function(tool, fmt::format("tools[{}]", index++)));
    KVIST_TRY(const std::string name, require_text(function, "name"));
    if (name.empty()) return fail(ErrorCode::kInvalidArgument, fmt::format("{}: is empty", function.path_of("name")));
  }
  return index == 0 ? std::string() : written_tools(tools);
}

Result<std::string> read_documents(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonElement> element, request.find("documents"));
  if (!element) return std::string();
  KVIST_TRY(const simdjson::dom::array documents, array_of(*element, "documents", "an array of documents"));
  std::size_t index = 0;
  for (const JsonElement document : documents)
    KVIST_TRY_VOID(JsonObject::from(document, fmt::format("documents[{}]", index++)));
  return index == 0 ? std::string() : simdjson::minify(*element);
}

Result<std::string> read_template_arguments(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonElement> element, request.find("chat_template_kwargs"));
  if (!element) return std::string();
  simdjson::dom::object object;
  if (element->get(object) != simdjson::SUCCESS) return unexpected_value("chat_template_kwargs", "an object", *element);
  return object.size() == 0 ? std::string() : simdjson::minify(*element);
}

Result<std::optional<bool>> read_flag(const JsonObject& request, std::string_view field, ReadFor purpose) {
  Result<std::optional<bool>> flag = request.find_bool(field);
  if (!flag && purpose == ReadFor::kRouting) return std::optional<bool>();
  return flag;
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
  KVIST_TRY(const std::optional<JsonElement> element, message.find("tool_calls"));
  if (!element) return {};
  const std::string path = message.path_of("tool_calls");
  KVIST_TRY(const simdjson::dom::array calls, array_of(*element, path, "an array of calls"));
  for (const JsonElement item : calls) {
    KVIST_TRY(text::ToolCall call, read_call(item, fmt::format("{}[{}]", path, into.tool_calls.size())));
    into.tool_calls.push_back(std::move(call));
  }
  if (!into.tool_calls.empty() && into.role != "assistant")
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: only the assistant calls tools", path));
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
  KVIST_TRY(const std::optional<JsonElement> element, request.find("tool_choice"));
  if (!element) return {};
  std::string_view choice;
  const bool is_text = element->get(choice) == simdjson::SUCCESS;
  if (is_text && choice == "auto") return {};
  if (is_text && choice == "none") {
    into.may_call_tools = false;
    return {};
  }
  if ((is_text && choice == "required") || element->is_object()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("tool_choice: {} needs constrained output, which this server does not have; give \"auto\" "
                            "or \"none\"",
                            is_text ? "\"required\"" : "a named tool"));
  }
  return unexpected_value("tool_choice", R"("auto" or "none")", *element);
}

}  // namespace kvist::openai

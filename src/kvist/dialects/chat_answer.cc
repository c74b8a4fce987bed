#include "kvist/dialects/chat_answer.h"

#include <limits>
#include <utility>

namespace kvist::dialects {
namespace {

constexpr std::size_t kMaxMessageBytes = 4096;

std::string text_of(const JsonObject& from, std::string_view name) {
  const std::optional<JsonValue> value = from.peek(name);
  return std::string(value ? value->if_string().value_or("") : "");
}

// The last of the tokens a server has counted may be missing; a count that is no count is none.
std::uint32_t count_of(const JsonObject& from, std::string_view name) {
  const std::optional<JsonValue> value = from.peek(name);
  const std::uint64_t count = value ? value->if_unsigned().value_or(0) : 0;
  return count <= std::numeric_limits<std::uint32_t>::max() ? static_cast<std::uint32_t>(count) : 0;
}

std::optional<JsonObject> object_of(const JsonObject& from, std::string_view name) {
  const std::optional<JsonValue> value = from.peek(name);
  return value ? value->if_object() : std::nullopt;
}

openai::Usage usage_of(const JsonObject& from) {
  openai::Usage usage{.prompt_tokens = count_of(from, "prompt_tokens"),
                      .completion_tokens = count_of(from, "completion_tokens")};
  if (const auto details = object_of(from, "prompt_tokens_details")) {
    usage.cached_tokens = std::min(count_of(*details, "cached_tokens"), usage.prompt_tokens);
    usage.reports_cached_tokens = details->has("cached_tokens");
  }
  return usage;
}

// {"error":{"message","code"}}, {"error":"..."}, or vLLM's older {"object":"error","message"}.
std::optional<ChatError> error_of(const JsonObject& root) {
  const bool old = text_of(root, "object") == "error";
  if (!old && !root.has("error")) return std::nullopt;
  const std::optional<JsonValue> value = root.peek("error");
  if (!old && !value) return std::nullopt;  // null
  const std::optional<JsonObject> nested = old ? std::optional(root) : value->if_object();
  if (!nested) return ChatError{.message = std::string(value->if_string().value_or("unnamed error"))};
  ChatError error{.message = text_of(*nested, "message")};
  if (error.message.empty()) error.message = "unnamed error";
  const std::uint32_t status = count_of(*nested, "code");
  if (status >= 100 && status <= 599) error.status = static_cast<int>(status);
  return error;
}

// In a whole answer calls have no index.
Result<CallPart> call_of(const JsonValue& value, std::uint32_t place) {
  KVIST_TRY(const JsonObject call, value.as_object());
  CallPart part{.index = call.has("index") ? count_of(call, "index") : place};
  if (part.index >= kMaxCalls) return call.wrong("index", "the answer has too many calls");
  part.id = text_of(call, "id");
  if (const auto function = object_of(call, "function")) {
    part.name = text_of(*function, "name");
    part.arguments = text_of(*function, "arguments");
  }
  return part;
}

Result<void> read_message(const JsonObject& message, ChatPart& into) {
  into.text = text_of(message, "content") + text_of(message, "refusal");
  into.reasoning = text_of(message, "reasoning_content");
  if (into.reasoning.empty()) into.reasoning = text_of(message, "reasoning");
  const std::optional<JsonValue> calls = message.peek("tool_calls");
  const std::optional<JsonArray> array = calls ? calls->if_array() : std::nullopt;
  if (!array) return {};
  for (const JsonValue value : *array) {
    KVIST_TRY(CallPart call, call_of(value, static_cast<std::uint32_t>(into.calls.size())));
    into.calls.push_back(std::move(call));
  }
  return {};
}

Result<void> read_choice(const JsonValue& value, ChatPart& into) {
  KVIST_TRY(const JsonObject choice, value.as_object());
  into.finish_reason = text_of(choice, "finish_reason");
  into.stop = text_of(choice, "stop_reason");
  if (const auto delta = object_of(choice, "delta")) return read_message(*delta, into);
  if (const auto message = object_of(choice, "message")) return read_message(*message, into);
  return value.wrong("expected a delta or a message");
}

}  // namespace

bool begins_call(const CallPart& part, std::uint32_t next_call, std::string_view last_id) {
  if (part.index >= next_call) return true;
  return part.index + 1 == next_call && !part.name.empty() && !part.id.empty() && part.id != last_id;
}

Result<ChatPart> read_chat_part(JsonDocument& document, std::string_view json) {
  KVIST_TRY(const JsonObject root, document.parse_object(json));
  ChatPart part;
  part.error = error_of(root);
  if (part.error) return part;
  part.id = text_of(root, "id");
  part.model = text_of(root, "model");
  part.created = count_of(root, "created");
  if (const auto usage = object_of(root, "usage")) part.usage = usage_of(*usage);
  KVIST_TRY(const JsonArray choices, root.require_array("choices"));
  if (!choices.empty()) KVIST_TRY_VOID(read_choice(*choices.begin(), part));
  return part;
}

Result<std::string> ChatAnswerTranslator::whole(std::string_view answer) {
  KVIST_TRY(const ChatPart part, read_chat_part(document_, answer));
  if (part.error) return fail(ErrorCode::kCorrupt, part.error->message);
  return whole_of(part);
}

Result<void> ChatAnswerTranslator::on_event(std::string_view data, std::string& out) {
  if (ended_) return {};
  if (data == "[DONE]") {
    end(out);
    return {};
  }
  KVIST_TRY(const ChatPart part, read_chat_part(document_, data));
  if (!part.error) return add_chunk(part, out);
  on_error(part.error->message, out);
  return {};
}

ChatError read_chat_error(std::string_view body) {
  JsonDocument document({.most_bytes = 1UL << 20});
  if (const auto root = document.parse_object(body)) {
    if (auto error = error_of(*root)) return *std::move(error);
  }
  return {.message = body.empty() ? "no reason was given" : std::string(body.substr(0, kMaxMessageBytes))};
}

std::string id_with(std::string_view prefix, std::string_view chat_id) {
  constexpr std::string_view kOwn = "chatcmpl-";
  if (chat_id.starts_with(kOwn)) chat_id.remove_prefix(kOwn.size());
  return std::string(prefix) + std::string(chat_id);
}

void append_event(std::string& out, std::string_view name, std::string_view data) {
  out.append("event: ").append(name).append("\ndata: ").append(data).append("\n\n");
}

}  // namespace kvist::dialects

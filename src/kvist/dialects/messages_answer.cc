#include "kvist/dialects/messages_answer.h"

#include <fmt/format.h>

#include "kvist/base/json_writer.h"

namespace kvist::dialects {
namespace {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

// Engines end a call that they were forced to make with "stop" (vLLM: named and required tools). Clients run a tool
// only for "tool_use".
std::string_view stop_reason_of(std::string_view finish_reason, std::string_view stop, bool calls) {
  if (finish_reason == "length") return "max_tokens";
  if (finish_reason == "tool_calls" || finish_reason == "function_call") return "tool_use";
  if (calls && finish_reason == "stop") return "tool_use";
  if (finish_reason == "content_filter") return "refusal";
  return stop.empty() ? "end_turn" : "stop_sequence";
}

// Anthropic's input_tokens are those that came from no cache.
void write_usage(JsonWriter& json, const openai::Usage& usage) {
  json.key("usage").begin_object();
  json.field("input_tokens", usage.prompt_tokens - usage.cached_tokens);
  json.field("cache_creation_input_tokens", 0).field("cache_read_input_tokens", usage.cached_tokens);
  json.field("output_tokens", usage.completion_tokens).end_object();
}

void write_stop(JsonWriter& json, std::string_view reason, std::string_view stop) {
  json.field("stop_reason", reason).key("stop_sequence");
  if (stop.empty()) {
    json.null();
  } else {
    json.value(stop);
  }
}

void write_head(JsonWriter& json, const ChatPart& part) {
  json.field("id", id_with("msg_", part.id)).field("type", "message").field("role", "assistant");
  json.field("model", part.model);
}

std::string text_block(std::string_view text) {
  JsonWriter json;
  json.begin_object().field("type", "text").field("text", text).end_object();
  return json.take();
}

// The signature is how Anthropic recognizes its own thinking; here nobody has one.
std::string thinking_block(std::string_view text) {
  JsonWriter json;
  json.begin_object().field("type", "thinking").field("thinking", text).field("signature", "").end_object();
  return json.take();
}

std::string call_block(const CallPart& call, std::string_view input) {
  JsonWriter json;
  json.begin_object().field("type", "tool_use").field("id", call.id).field("name", call.name);
  json.key("input").raw(input).end_object();
  return json.take();
}

// The arguments as a JSON object. A model may write arguments that are none; a client then gets them as one text.
std::string input_of(std::string_view arguments) {
  JsonDocument document;
  if (arguments.empty()) return "{}";
  if (const auto object = document.parse_object(arguments)) return object->value().minified();
  JsonWriter json;
  json.begin_object().field("arguments", arguments).end_object();
  return json.take();
}

}  // namespace

std::string messages_error(int status, std::string_view message, std::string_view request_id) {
  JsonWriter json;
  json.begin_object().field("type", "error").key("error").begin_object();
  json.field("type", error_type(status)).field("message", message).end_object().key("request_id");
  if (request_id.empty()) {
    json.null();
  } else {
    json.value(request_id);
  }
  json.end_object();
  return json.take();
}

Result<std::string> MessagesAnswer::whole_of(const ChatPart& part) {
  JsonWriter json;
  json.begin_object();
  write_head(json, part);
  json.key("content").begin_array();
  if (!part.reasoning.empty()) json.raw(thinking_block(part.reasoning));
  if (!part.text.empty()) json.raw(text_block(part.text));
  for (const CallPart& call : part.calls) json.raw(call_block(call, input_of(call.arguments)));
  json.end_array();
  write_stop(json, stop_reason_of(part.finish_reason, part.stop, !part.calls.empty()), part.stop);
  write_usage(json, part.usage.value_or(openai::Usage{}));
  json.end_object();
  return json.take();
}

Result<void> MessagesAnswer::add_chunk(const ChatPart& part, std::string& out) {
  if (!started_) start(part, out);
  if (part.usage) usage_ = *part.usage;
  add_text(Block::kThinking, part.reasoning, out);
  add_text(Block::kText, part.text, out);
  for (const CallPart& call : part.calls) KVIST_TRY_VOID(add_call(call, out));
  if (!part.finish_reason.empty()) finish_reason_ = part.finish_reason;
  if (!part.stop.empty()) stop_ = part.stop;
  return {};
}

void MessagesAnswer::start(const ChatPart& part, std::string& out) {
  started_ = true;
  JsonWriter json;
  json.begin_object().field("type", "message_start").key("message").begin_object();
  write_head(json, part);
  json.key("content").begin_array().end_array().key("stop_reason").null().key("stop_sequence").null();
  write_usage(json, {});
  json.end_object().end_object();
  append_event(out, "message_start", json.take());
}

void MessagesAnswer::open(Block kind, std::string_view block, std::string& out) {
  close(out);
  block_ = kind;
  append_event(out, "content_block_start",
               fmt::format(R"({{"type":"content_block_start","index":{},"content_block":{}}})", blocks_, block));
  ++blocks_;
}

void MessagesAnswer::close(std::string& out) {
  if (block_ == Block::kNone) return;
  block_ = Block::kNone;
  append_event(out, "content_block_stop", fmt::format(R"({{"type":"content_block_stop","index":{}}})", blocks_ - 1));
}

void MessagesAnswer::add_text(Block kind, std::string_view text, std::string& out) {
  if (text.empty()) return;
  const bool thinks = kind == Block::kThinking;
  if (block_ != kind) open(kind, thinks ? thinking_block("") : text_block(""), out);
  std::string written;
  append_json_string(written, text);
  append_event(
      out, "content_block_delta",
      fmt::format(R"({{"type":"content_block_delta","index":{},"delta":{{"type":"{}","{}":{}}}}})", blocks_ - 1,
                  thinks ? "thinking_delta" : "text_delta", thinks ? "thinking" : "text", written));
}

// Blocks do not overlap, so a call must be complete before the next begins, as it is at every known server.
Result<void> MessagesAnswer::add_call(const CallPart& call, std::string& out) {
  if (begins_call(call, next_call_, call_id_)) {
    next_call_ = call.index + 1;
    call_id_ = call.id;
    open(Block::kCall, call_block(call, "{}"), out);
  } else if (call.index + 1 != next_call_ || block_ != Block::kCall) {
    return fail(ErrorCode::kCorrupt, "a call of a tool went on after something else had begun");
  }
  if (call.arguments.empty()) return {};
  std::string written;
  append_json_string(written, call.arguments);
  append_event(
      out, "content_block_delta",
      fmt::format(
          R"({{"type":"content_block_delta","index":{},"delta":{{"type":"input_json_delta","partial_json":{}}}}})",
          blocks_ - 1, written));
  return {};
}

void MessagesAnswer::end(std::string& out) {
  if (ended_) return;
  if (finish_reason_.empty()) return on_error(kUnfinished, out);
  ended_ = true;
  close(out);
  JsonWriter json;
  json.begin_object().field("type", "message_delta").key("delta").begin_object();
  write_stop(json, stop_reason_of(finish_reason_, stop_, next_call_ > 0), stop_);
  json.end_object();
  write_usage(json, usage_);
  json.end_object();
  append_event(out, "message_delta", json.take());
  append_event(out, "message_stop", R"({"type":"message_stop"})");
}

void MessagesAnswer::on_error(std::string_view message, std::string& out) {
  constexpr int kServerError = 500;
  if (ended_) return;
  ended_ = true;
  append_event(out, "error", messages_error(kServerError, message, ""));
}

}  // namespace kvist::dialects

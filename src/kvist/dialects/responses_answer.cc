#include "kvist/dialects/responses_answer.h"

#include <fmt/format.h>

#include <utility>

namespace kvist::dialects {
namespace {

using Kind = OutputItem::Kind;

std::string text_part(Kind kind, std::string_view text) {
  JsonWriter json;
  json.begin_object().field("type", kind == Kind::kMessage ? "output_text" : "reasoning_text").field("text", text);
  if (kind == Kind::kMessage) {
    json.key("annotations").begin_array().end_array();
    json.key("logprobs").begin_array().end_array();
  }
  json.end_object();
  return json.take();
}

// While it is being written, an item has no parts and no arguments yet.
std::string item_json(const OutputItem& item, bool done) {
  JsonWriter json;
  json.begin_object().field("id", item.id);
  switch (item.kind) {
    case Kind::kReasoning:
      json.field("type", "reasoning").key("summary").begin_array().end_array().key("content").begin_array();
      if (done) json.raw(text_part(item.kind, item.text));
      json.end_array().key("encrypted_content").null();
      break;
    case Kind::kMessage:
      json.field("type", "message").field("role", "assistant").key("content").begin_array();
      if (done) json.raw(text_part(item.kind, item.text));
      json.end_array();
      break;
    case Kind::kCall:
      json.field("type", "function_call").field("call_id", item.call_id).field("name", item.name);
      json.field("arguments", done ? std::string_view(item.text) : std::string_view());
      break;
  }
  const std::string_view how = item.is_cut ? "incomplete" : "completed";
  json.field("status", done ? how : "in_progress").end_object();
  return json.take();
}

void write_usage(JsonWriter& json, const std::optional<openai::Usage>& usage) {
  json.key("usage");
  if (!usage) {
    json.null();
    return;
  }
  json.begin_object().field("input_tokens", usage->prompt_tokens);
  json.key("input_tokens_details").begin_object().field("cached_tokens", usage->cached_tokens).end_object();
  json.field("output_tokens", usage->completion_tokens);
  json.key("output_tokens_details").begin_object().field("reasoning_tokens", 0).end_object();
  json.field("total_tokens", std::uint64_t{usage->prompt_tokens} + usage->completion_tokens).end_object();
}

}  // namespace

Result<std::string> ResponsesAnswer::whole_of(const ChatPart& part) {
  std::string events;  // nobody gets them
  identify(part);
  KVIST_TRY_VOID(add(part, events));
  if (open_) close(events);
  return response(final_status(), "null");
}

void ResponsesAnswer::identify(const ChatPart& part) {
  id_ = part.id;
  model_ = part.model;
  created_ = part.created;
}

Result<void> ResponsesAnswer::add_chunk(const ChatPart& part, std::string& out) {
  if (!started_) {
    identify(part);
    start(out);
  }
  return add(part, out);
}

void ResponsesAnswer::start(std::string& out) {
  started_ = true;
  write_response("response.created", "in_progress", out);
  write_response("response.in_progress", "in_progress", out);
}

Result<void> ResponsesAnswer::add(const ChatPart& part, std::string& out) {
  if (part.usage) usage_ = part.usage;
  KVIST_TRY_VOID(add_text(Kind::kReasoning, part.reasoning, out));
  KVIST_TRY_VOID(add_text(Kind::kMessage, part.text, out));
  for (const CallPart& call : part.calls) KVIST_TRY_VOID(add_call(call, out));
  if (!part.finish_reason.empty()) finish_reason_ = part.finish_reason;
  return {};
}

Result<void> ResponsesAnswer::keep(std::string_view text) {
  kept_ += text.size();
  if (kept_ <= kMaxKeptBytes) return {};
  return fail(ErrorCode::kTooLarge, fmt::format("the answer is longer than {} bytes", kMaxKeptBytes));
}

Result<void> ResponsesAnswer::add_text(Kind kind, std::string_view text, std::string& out) {
  if (text.empty()) return {};
  KVIST_TRY_VOID(keep(text));
  const bool thinks = kind == Kind::kReasoning;
  if (!open_ || items_.back().kind != kind) {
    const std::string prefix = fmt::format("{}{}_", thinks ? "rs_" : "msg_", items_.size());
    open({.kind = kind, .id = id_with(prefix, id_)}, out);
    write_part("response.content_part.added", text_part(kind, ""), out);
  }
  items_.back().text += text;
  write_delta(thinks ? "response.reasoning_text.delta" : "response.output_text.delta", "delta", text, true, out);
  return {};
}

// Items do not overlap, so a call must be complete before the next begins, as it is at every known server.
Result<void> ResponsesAnswer::add_call(const CallPart& call, std::string& out) {
  KVIST_TRY_VOID(keep(call.arguments));
  KVIST_TRY_VOID(keep(call.name));
  if (begins_call(call, next_call_, call_id_)) {
    next_call_ = call.index + 1;
    call_id_ = call.id;
    open({.kind = Kind::kCall,
          .id = id_with(fmt::format("fc_{}_", items_.size()), id_),
          .call_id = call.id,
          .name = call.name,
          .call = call.index},
         out);
  } else if (!open_ || items_.back().kind != Kind::kCall || items_.back().call != call.index) {
    return fail(ErrorCode::kCorrupt, "a call of a tool went on after something else had begun");
  }
  if (call.arguments.empty()) return {};
  items_.back().text += call.arguments;
  write_delta("response.function_call_arguments.delta", "delta", call.arguments, false, out);
  return {};
}

void ResponsesAnswer::open(OutputItem item, std::string& out) {
  if (open_) close(out);
  items_.push_back(std::move(item));
  open_ = true;
  write_item("response.output_item.added", false, out);
}

void ResponsesAnswer::close(std::string& out) {
  open_ = false;
  OutputItem& item = items_.back();
  item.is_cut = final_status() == "incomplete";
  if (item.kind == Kind::kCall) {
    write_delta("response.function_call_arguments.done", "arguments", item.text, false, out);
  } else {
    const bool thinks = item.kind == Kind::kReasoning;
    write_delta(thinks ? "response.reasoning_text.done" : "response.output_text.done", "text", item.text, true, out);
    write_part("response.content_part.done", text_part(item.kind, item.text), out);
  }
  write_item("response.output_item.done", true, out);
}

JsonWriter ResponsesAnswer::event(std::string_view type) {
  JsonWriter json;
  json.begin_object().field("type", type).field("sequence_number", sequence_++);
  return json;
}

void ResponsesAnswer::write_delta(std::string_view name, std::string_view field, std::string_view text, bool has_part,
                                  std::string& out) {
  JsonWriter json = event(name);
  json.field("item_id", items_.back().id).field("output_index", items_.size() - 1);
  if (has_part) json.field("content_index", 0);
  if (!has_part && field == "arguments") json.field("name", items_.back().name);
  json.field(field, text);
  if (has_part && items_.back().kind == Kind::kMessage) json.key("logprobs").begin_array().end_array();
  json.end_object();
  append_event(out, name, json.take());
}

void ResponsesAnswer::write_part(std::string_view name, std::string_view part, std::string& out) {
  JsonWriter json = event(name);
  json.field("item_id", items_.back().id).field("output_index", items_.size() - 1).field("content_index", 0);
  json.key("part").raw(part).end_object();
  append_event(out, name, json.take());
}

void ResponsesAnswer::write_item(std::string_view name, bool done, std::string& out) {
  JsonWriter json = event(name);
  json.field("output_index", items_.size() - 1).key("item").raw(item_json(items_.back(), done)).end_object();
  append_event(out, name, json.take());
}

void ResponsesAnswer::write_response(std::string_view name, std::string_view status, std::string& out) {
  JsonWriter error;
  if (error_.empty()) {
    error.null();
  } else {
    error.begin_object().field("code", "server_error").field("message", error_).end_object();
  }
  JsonWriter json = event(name);
  json.key("response").raw(response(status, error.take())).end_object();
  append_event(out, name, json.take());
}

std::string ResponsesAnswer::response(std::string_view status, std::string_view error) const {
  JsonWriter json;
  json.begin_object().field("id", id_with("resp_", id_)).field("object", "response").field("created_at", created_);
  json.field("status", status).field("model", model_).key("error").raw(error).key("incomplete_details");
  if (status == "incomplete") {
    json.begin_object();
    json.field("reason", finish_reason_ == "length" ? "max_output_tokens" : "content_filter").end_object();
  } else {
    json.null();
  }
  json.key("output").begin_array();
  for (std::size_t i = 0; i < items_.size(); ++i) json.raw(item_json(items_[i], !open_ || i + 1 < items_.size()));
  json.end_array();
  write_usage(json, usage_);
  json.end_object();
  std::string text = json.take();
  text.pop_back();
  return text + "," + echo_ + "}";
}

std::string_view ResponsesAnswer::final_status() const {
  return finish_reason_ == "length" || finish_reason_ == "content_filter" ? "incomplete" : "completed";
}

void ResponsesAnswer::end(std::string& out) {
  if (ended_) return;
  if (finish_reason_.empty()) return on_error(kUnfinished, out);
  ended_ = true;
  if (open_) close(out);
  const std::string_view status = final_status();
  write_response(fmt::format("response.{}", status), status, out);
}

void ResponsesAnswer::on_error(std::string_view message, std::string& out) {
  if (ended_) return;
  ended_ = true;
  JsonWriter json = event("error");
  json.field("code", "server_error").field("message", message).key("param").null().end_object();
  append_event(out, "error", json.take());
  if (!started_) return;
  error_ = message;
  write_response("response.failed", "failed", out);
}

}  // namespace kvist::dialects

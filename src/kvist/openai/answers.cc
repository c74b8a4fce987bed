// Whole documents: answers, the model list, what a client sends.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <iterator>

#include "kvist/base/json_writer.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/logprobs_json.h"
#include "kvist/openai/tokenize.h"
#include "kvist/openai/tokens_json.h"
#include "kvist/openai/usage_json.h"

namespace kvist::openai {

void append_usage_json(std::string& out, const Usage& usage) {
  const std::uint64_t total = std::uint64_t{usage.prompt_tokens} + usage.completion_tokens;
  fmt::format_to(std::back_inserter(out), R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)",
                 usage.prompt_tokens, usage.completion_tokens, total);
  fmt::format_to(std::back_inserter(out), R"("prompt_tokens_details":{{"cached_tokens":{}}}}})", usage.cached_tokens);
}

void append_tokens_json(std::string& out, std::span<const TokenId> tokens) {
  std::array<char, 10> digits{};  // of 32 bits
  out += '[';
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), tokens[i].value()).ptr);
  }
  out += ']';
}

namespace {

void write_tokens(JsonWriter& json, std::string_view field, const std::optional<std::vector<TokenId>>& tokens) {
  if (!tokens) return;
  std::string text;
  append_tokens_json(text, *tokens);
  json.key(field).raw(text);
}

void write_prompt_logprobs(JsonWriter& json, const WholeChoice& choice) {
  if (!choice.prompt_logprobs) return;
  std::string text;
  append_prompt_logprobs_json(text, *choice.prompt_logprobs);
  json.key("prompt_logprobs").raw(text);
}

void write_message(JsonWriter& json, const WholeChoice& choice) {
  json.key("message").begin_object().field("role", "assistant").key("content");
  if (choice.text.empty() && !choice.tool_calls.empty()) {
    json.null();
  } else {
    json.value(choice.text);
  }
  if (!choice.tool_calls.empty()) {
    json.key("tool_calls").begin_array();
    for (const text::ToolCall& call : choice.tool_calls) {
      json.begin_object().field("id", call.id).field("type", "function").key("function").begin_object();
      json.field("name", call.name).field("arguments", call.arguments).end_object().end_object();
    }
    json.end_array();
  }
  json.end_object();
}

}  // namespace

std::string whole_answer(const AnswerHead& head, const std::vector<WholeChoice>& choices, const Usage& usage) {
  JsonWriter json;
  json.begin_object().field("id", head.id);
  json.field("object", head.chat ? "chat.completion" : "text_completion");
  json.field("created", head.created).field("model", head.model).key("choices").begin_array();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    json.begin_object().field("index", i);
    if (head.chat) {
      write_message(json, choices[i]);
    } else {
      json.field("text", choices[i].text);
    }
    std::string logprobs;
    choices[i].logprobs.append_to(logprobs);
    json.key("logprobs").raw(logprobs).field("finish_reason", choices[i].finish_reason);
    if (!choices[i].stop_reason.empty()) json.field("stop_reason", choices[i].stop_reason);
    write_tokens(json, "token_ids", choices[i].tokens);
    if (!head.chat) {
      write_tokens(json, "prompt_token_ids", choices[i].prompt_tokens);
      write_prompt_logprobs(json, choices[i]);
    }
    json.end_object();
  }
  std::string usage_text;
  append_usage_json(usage_text, usage);
  json.end_array().key("usage").raw(usage_text);
  // A chat has one prompt, whatever its choices.
  if (head.chat && !choices.empty()) {
    write_tokens(json, "prompt_token_ids", choices.front().prompt_tokens);
    write_prompt_logprobs(json, choices.front());
  }
  json.end_object();
  return json.take();
}

std::string model_list(const std::vector<std::string>& models, std::int64_t created, std::uint32_t max_model_len) {
  JsonWriter json;
  json.begin_object().field("object", "list").key("data").begin_array();
  for (const std::string& model : models) {
    json.begin_object().field("id", model).field("object", "model").field("created", created);
    json.field("owned_by", "kvist").field("root", model).key("parent").null();
    if (max_model_len > 0) json.field("max_model_len", max_model_len);
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

std::string chat_request_body(const ClientChatRequest& request) {
  JsonWriter json;
  json.begin_object().field("model", request.model).key("messages").begin_array();
  for (const text::ChatMessage& message : request.messages)
    json.begin_object().field("role", message.role).field("content", message.content).end_object();
  json.end_array().field("max_tokens", request.max_tokens).field("seed", request.seed);
  if (request.ignore_eos) json.field("ignore_eos", true);
  json.field("stream", request.stream);
  if (request.stream) json.key("stream_options").begin_object().field("include_usage", true).end_object();
  json.end_object();
  return json.take();
}

std::string tokenize_answer(std::span<const TokenId> tokens, std::uint32_t max_model_len,
                            std::span<const std::string> spellings) {
  std::string out = fmt::format(R"({{"count":{},"max_model_len":{},"tokens":)", tokens.size(), max_model_len);
  out.reserve(out.size() + 7 * tokens.size() + 20);
  append_tokens_json(out, tokens);
  out += R"(,"token_strs":)";
  if (spellings.empty()) return out + "null}";
  char before = '[';
  for (const std::string& spelling : spellings) {
    out += before;
    append_json_string(out, spelling);
    before = ',';
  }
  return out + "]}";
}

std::string detokenize_answer(std::string_view text) {
  JsonWriter json;
  json.begin_object().key("prompt").value(text).end_object();
  return json.take();
}

}  // namespace kvist::openai

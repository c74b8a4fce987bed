#include "kvist/openai/logprobs_json.h"

#include <algorithm>

#include "kvist/base/json_writer.h"

namespace kvist::openai {
namespace {

// JSON has no infinity. vLLM reports the same value for an impossible token.
constexpr double kImpossible = -9999;

double finite(double logprob) {
  return std::max(logprob, kImpossible);
}

// The token's bytes are written too, because they may be a part of a character, which text cannot represent.
void write_chat_token(JsonWriter& json, const TokenLogprob& token) {
  json.field("token", token.token).field("logprob", finite(token.logprob)).key("bytes").begin_array();
  for (const char byte : token.token) json.value(static_cast<unsigned>(static_cast<unsigned char>(byte)));
  json.end_array();
}

void write_chat(JsonWriter& json, std::span<const TokenLogprobs> tokens) {
  json.begin_object().key("content").begin_array();
  for (const TokenLogprobs& token : tokens) {
    json.begin_object();
    write_chat_token(json, token.chosen);
    json.key("top_logprobs").begin_array();
    for (const TokenLogprob& other : token.likeliest) {
      json.begin_object();
      write_chat_token(json, other);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array().key("refusal").null().end_object();
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

void write_completion(JsonWriter& json, std::span<const TokenLogprobs> tokens, std::size_t text_offset) {
  json.begin_object().key("text_offset").begin_array();
  for (const TokenLogprobs& token : tokens) {
    json.value(text_offset);
    text_offset += characters(token.chosen.token);
  }
  json.end_array().key("token_logprobs").begin_array();
  for (const TokenLogprobs& token : tokens) json.value(finite(token.chosen.logprob));
  json.end_array().key("tokens").begin_array();
  for (const TokenLogprobs& token : tokens) json.value(token.chosen.token);
  json.end_array().key("top_logprobs").begin_array();
  for (const TokenLogprobs& token : tokens) {
    json.begin_object().field(token.chosen.token, finite(token.chosen.logprob));
    for (const TokenLogprob& other : token.likeliest) {
      if (other.token != token.chosen.token) json.field(other.token, finite(other.logprob));
    }
    json.end_object();
  }
  json.end_array().end_object();
}

}  // namespace

void append_logprobs_json(std::string& out, std::span<const TokenLogprobs> tokens, bool chat, std::size_t text_offset) {
  if (tokens.empty()) {
    out += "null";
    return;
  }
  JsonWriter json;
  if (chat) {
    write_chat(json, tokens);
  } else {
    write_completion(json, tokens, text_offset);
  }
  out += json.take();
}

}  // namespace kvist::openai

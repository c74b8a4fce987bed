#include "kvist/openai/logprobs_json.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// By their text. Several tokens may have one, as JSON writes parts of characters. A reader takes the last of them, so
// only the first is written: the token itself, or the likeliest.
void write_by_text(JsonWriter& json, const TokenLogprobs& token) {
  if (token.is_first) {
    json.null();
    return;
  }
  std::vector<std::string> written = {json_string(token.chosen.token)};
  json.begin_object().field(token.chosen.token, finite(token.chosen.logprob));
  for (const TokenLogprob& other : token.likeliest) {
    std::string text = json_string(other.token);
    if (std::ranges::find(written, text) != written.end()) continue;
    json.field(other.token, finite(other.logprob));
    written.push_back(std::move(text));
  }
  json.end_object();
}

void write_completion(JsonWriter& json, std::span<const TokenLogprobs> tokens, std::size_t text_offset) {
  json.begin_object().key("text_offset").begin_array();
  for (const TokenLogprobs& token : tokens) {
    json.value(text_offset);
    text_offset += characters(token.chosen.token);
  }
  json.end_array().key("token_logprobs").begin_array();
  for (const TokenLogprobs& token : tokens) {
    if (token.is_first) {
      json.null();
    } else {
      json.value(finite(token.chosen.logprob));
    }
  }
  json.end_array().key("tokens").begin_array();
  for (const TokenLogprobs& token : tokens) json.value(token.chosen.token);
  json.end_array().key("top_logprobs").begin_array();
  for (const TokenLogprobs& token : tokens) write_by_text(json, token);
  json.end_array().end_object();
}

void write_ranked(JsonWriter& json, const RankedLogprob& ranked) {
  json.key(std::to_string(ranked.id.value())).begin_object().field("logprob", finite(ranked.token.logprob));
  json.field("rank", ranked.rank).field("decoded_token", ranked.token.token).end_object();
}

}  // namespace

// By their ids, so the token itself, which may be one of the likeliest, is written once.
void append_prompt_logprobs_json(std::string& out, std::span<const std::vector<RankedLogprob>> positions) {
  JsonWriter json;
  json.begin_array();
  for (const std::vector<RankedLogprob>& position : positions) {
    if (position.empty()) {
      json.null();
      continue;
    }
    json.begin_object();
    for (auto ranked = position.begin(); ranked != position.end(); ++ranked) {
      if (ranked == position.begin() || ranked->id != position.front().id) write_ranked(json, *ranked);
    }
    json.end_object();
  }
  json.end_array();
  out += json.take();
}

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

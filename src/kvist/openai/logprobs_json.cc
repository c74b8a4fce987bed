#include "kvist/openai/logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/openai/logprobs_text.h"

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

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// As an object by their text. Several tokens may have one, as JSON writes parts of characters. A reader takes the last
// of them, so only the first is written: the token itself, or the likeliest.
std::string by_text(const TokenLogprobs& token) {
  JsonWriter json;
  std::vector<std::string> written = {json_string(token.chosen.token)};
  json.begin_object().field(token.chosen.token, finite(token.chosen.logprob));
  for (const TokenLogprob& other : token.likeliest) {
    std::string text = json_string(other.token);
    if (std::ranges::find(written, text) != written.end()) continue;
    json.field(other.token, finite(other.logprob));
    written.push_back(std::move(text));
  }
  json.end_object();
  return json.take();
}

void append_number(std::string& out, double number) {
  fmt::format_to(std::back_inserter(out), "{}", number);
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

void LogprobsText::add(std::span<const TokenLogprobs> tokens) {
  for (const TokenLogprobs& token : tokens) {
    for (std::string* list : {&tokens_, &offsets_, &logprobs_, &likeliest_})
      if (!list->empty()) *list += ',';
    chat_ ? add_to_chat(token) : add_to_completion(token);
  }
}

void LogprobsText::add_to_chat(const TokenLogprobs& token) {
  JsonWriter json;
  json.begin_object();
  write_chat_token(json, token.chosen);
  json.key("top_logprobs").begin_array();
  for (const TokenLogprob& other : token.likeliest) {
    json.begin_object();
    write_chat_token(json, other);
    json.end_object();
  }
  json.end_array().end_object();
  tokens_ += json.take();
}

void LogprobsText::add_to_completion(const TokenLogprobs& token) {
  offsets_ += std::to_string(text_offset_);
  text_offset_ += characters(token.chosen.token);
  append_json_string(tokens_, token.chosen.token);
  if (token.is_first) {
    logprobs_ += "null";
    likeliest_ += "null";
  } else {
    append_number(logprobs_, finite(token.chosen.logprob));
    likeliest_ += by_text(token);
  }
}

void LogprobsText::append_to(std::string& out) const {
  if (tokens_.empty()) {
    out += "null";
  } else if (chat_) {
    out.append(R"({"content":[)").append(tokens_).append(R"(],"refusal":null})");
  } else {
    out.append(R"({"text_offset":[)").append(offsets_).append(R"(],"token_logprobs":[)").append(logprobs_);
    out.append(R"(],"tokens":[)").append(tokens_).append(R"(],"top_logprobs":[)").append(likeliest_).append("]}");
  }
}

}  // namespace kvist::openai

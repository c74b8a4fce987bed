#include "kvist/gateway/tokenizer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/gateway/log_component.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/tokenize.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

// Scripts, numbers, code, white space, emoji and look-alikes of special tokens. Tokenizers that agree on all of this
// are taken for the same.
constexpr std::string_view kText =
    "The tide's at 6:45 — 12345 kg, 3.14!  Héllo wörld, Привет мир, 你好世界, こんにちは, 안녕하세요, "
    "שלום, مرحبا, नमस्ते, สวัสดี 👩‍👩‍👧‍👦🌊\n\n\tif (x != 0) { "
    "return "
    "\"a\\n\"; "
    "} "
    " "
    " "
    "// "
    "tabs\tand "
    " "
    " "
    "runs\r\n"
    "<|im_start|>user<|im_end|><|eot_id|><s>[INST] </s> <|endoftext|>";

// How many of the model's own special tokens are in the probe, besides those that every probe contains.
constexpr std::size_t kOwnSpecials = 16;
constexpr std::size_t kMostQuoted = 200;

std::string probe_text(const PromptReader& reader) {
  return std::string(kText) + reader.special_texts(kOwnSpecials) + "end";
}

std::vector<text::ChatMessage> probe_chat(const PromptReader& reader) {
  return {{"user", probe_text(reader)}, {"assistant", "At noon, <|im_end|> I think."}, {"user", " And tomorrow? "}};
}

// The field add_special_tokens is left out on purpose, because the server's default is part of what is tested.
std::string text_body(const PromptReader& reader) {
  JsonWriter json;
  json.begin_object().field("model", reader.model()).field("prompt", probe_text(reader)).end_object();
  return json.take();
}

std::string chat_body(const PromptReader& reader) {
  JsonWriter json;
  json.begin_object().field("model", reader.model()).key("messages").begin_array();
  for (const text::ChatMessage& message : probe_chat(reader))
    json.begin_object().field("role", message.role).field("content", message.content).end_object();
  json.end_array().field("add_generation_prompt", true).end_object();
  return json.take();
}

// A description for the log.
std::string to_string(const text::PromptReading& reading) {
  return fmt::format("special tokens that users write are {} in chats and {} in completions{}{}",
                     reading.specials_in_chats ? "special" : "text",
                     reading.specials_in_completions ? "special" : "text",
                     reading.frames_chats ? "; chats begin as completions do" : "",
                     reading.frames_completions ? "" : "; nothing is put before completions");
}

}  // namespace

std::string_view to_string(TokenizerMatch match) {
  switch (match) {
    case TokenizerMatch::kUnknown:
      return "unknown";
    case TokenizerMatch::kSame:
      return "same";
    case TokenizerMatch::kDifferent:
      return "different";
    case TokenizerMatch::kNotTold:
      return "not_told";
  }
  return "unknown";
}

TokenizerCheck::TokenizerCheck(net::EventLoop& loop, net::HttpClient& client, const PromptReader& reader,
                               std::string worker, std::string url, Options options, std::function<void()> on_change)
    : client_(&client),
      reader_(&reader),
      worker_(std::move(worker)),
      url_(std::move(url)),
      options_(options),
      on_change_(std::move(on_change)),
      timer_(loop) {}

void TokenizerCheck::start() {
  pause_ = options_.pause;
  timer_.cancel();
  ask_for_text();
}

void TokenizerCheck::ask_for_text() {
  const auto own = [this](const text::PromptReading& reading) {
    return std::optional(reader_->tokens_of(probe_text(*reader_), reading));
  };
  ask(text_body(*reader_), {.what = "a text",
                            .own = own,
                            .readings = {{},
                                         {.frames_completions = false},
                                         {.specials_in_completions = false},
                                         {.specials_in_completions = false, .frames_completions = false}},
                            .if_same = [this](const text::PromptReading& reading) { ask_for_chat(reading); }});
}

void TokenizerCheck::ask_for_chat(const text::PromptReading& of_texts) {
  const auto own = [this](const text::PromptReading& reading) -> std::optional<std::vector<TokenId>> {
    Result<std::vector<TokenId>> tokens = reader_->tokens_of(probe_chat(*reader_), reading);
    if (!tokens) return std::nullopt;
    return *std::move(tokens);
  };
  // With a model for completions only, gateway and worker both refuse chats.
  if (!own({}))
    return decide(TokenizerMatch::kSame, "a text becomes the same tokens; the model takes no chats", of_texts);
  std::vector<text::PromptReading> readings;
  for (const auto& [specials, framed] : {std::pair(true, false), {false, false}, {true, true}, {false, true}}) {
    text::PromptReading reading = of_texts;
    reading.specials_in_chats = specials;
    reading.frames_chats = framed;
    readings.push_back(reading);
  }
  ask(chat_body(*reader_), {.what = "a chat",
                            .own = own,
                            .readings = std::move(readings),
                            .if_same = [this](const text::PromptReading& reading) {
                              decide(TokenizerMatch::kSame,
                                     "a text and a chat become the same tokens, " + to_string(reading), reading);
                            }});
}

void TokenizerCheck::ask(std::string body, Question question) {
  net::HttpRequest request{.method = "POST", .target = "/tokenize", .headers = {}, .body = std::move(body)};
  request.headers.set("Content-Type", "application/json");
  call_ = client_->fetch(url_, std::move(request), options_.timeout,
                         [this, question = std::move(question)](const Result<net::HttpResponse>& answer) {
                           const Question held = question;  // the next request replaces this call
                           on_answer(answer, held);
                         });
}

void TokenizerCheck::on_answer(const Result<net::HttpResponse>& answer, const Question& question) {
  if (!answer) return decide(TokenizerMatch::kUnknown, "no answer: " + answer.error().message);
  if (answer->status == 404) {
    // That is also what a server says whose model has another name.
    const auto body = openai::parse_chunk(answer->body);
    if (body && body->error && body->error->contains("model"))
      return decide(TokenizerMatch::kUnknown, "/tokenize answered 404: " + body->error->substr(0, kMostQuoted));
  }
  if (answer->status == 404 || answer->status == 405 || answer->status == 501)
    return decide(TokenizerMatch::kNotTold, fmt::format("/tokenize answered {}", answer->status));
  if (answer->status != 200)
    return decide(TokenizerMatch::kUnknown, fmt::format("/tokenize answered {} for {}", answer->status, question.what));
  const Result<openai::TokenizeAnswer> theirs = openai::parse_tokenize_answer(answer->body);
  if (!theirs) return decide(TokenizerMatch::kUnknown, "/tokenize: " + theirs.error().message);
  told_model_len_ = theirs->max_model_len;
  compare(theirs->tokens, question);
}

void TokenizerCheck::compare(const std::vector<TokenId>& theirs, const Question& question) {
  // If all readings differ, the message is about the one that agrees for the longest.
  std::size_t agreed = 0;
  std::size_t size = 0;
  for (const text::PromptReading& reading : question.readings) {
    const std::optional<std::vector<TokenId>> own = question.own(reading);
    if (!own) continue;
    if (*own == theirs) return question.if_same(reading);
    const auto same = static_cast<std::size_t>(std::ranges::mismatch(*own, theirs).in1 - own->begin());
    if (size > 0 && same <= agreed) continue;
    agreed = same;
    size = own->size();
  }
  decide(TokenizerMatch::kDifferent, fmt::format("{} becomes {} tokens there and {} here, different from the {}th on",
                                                 question.what, theirs.size(), size, agreed + 1));
}

void TokenizerCheck::decide(TokenizerMatch match, std::string_view why, std::optional<text::PromptReading> reading) {
  const bool changed = match != match_ || reading != reading_;
  const bool told_more = told_model_len_ != max_model_len_;
  match_ = match;
  reading_ = reading;
  max_model_len_ = told_model_len_;
  log(match, fmt::format("tokenizer of {}: {} ({})", worker_, to_string(match), why));
  if (match == TokenizerMatch::kUnknown) ask_later();
  if (changed || told_more) on_change_();
}

// The check starts afresh with each change of the worker's health, which may be several a second, and as a rule finds
// what it had found.
void TokenizerCheck::log(TokenizerMatch match, const std::string& text) {
  if (text == logged_) return;
  const bool is_result = match == TokenizerMatch::kDifferent || match == TokenizerMatch::kSame;
  if (!is_result && !warnings_.pass(net::now())) return;
  logged_ = text;
  if (match == TokenizerMatch::kDifferent) {
    telemetry::log_error(log_component::kFleet, text + "; its KV events are not matched with prompts");
  } else if (match == TokenizerMatch::kSame) {
    telemetry::log_info(log_component::kFleet, text);
  } else {
    telemetry::log_warning(log_component::kFleet, text);
  }
}

void TokenizerCheck::ask_later() {
  timer_.arm(net::now() + pause_, [this] { ask_for_text(); });
  pause_ = std::min(2 * pause_, options_.longest_pause);
}

}  // namespace kvist::gateway

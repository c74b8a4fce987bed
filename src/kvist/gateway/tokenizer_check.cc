#include "kvist/gateway/tokenizer_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/json_writer.h"
#include "kvist/openai/tokenize.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

constexpr std::string_view kComponent = "fleet";

// Scripts, numbers, code, white space, emoji and what looks like special tokens: tokenizers that agree on all of it are
// one and the same.
constexpr std::string_view kText =
    "The tide's at 6:45 — 12345 kg, 3.14!  Héllo wörld, Привет мир, 你好世界, こんにちは, 안녕하세요, "
    "שלום, مرحبا, नमस्ते, สวัสดี 👩‍👩‍👧‍👦🌊\n\n\tif (x != 0) { return \"a\\n\"; }   // tabs\tand  "
    " "
    "runs\r\n"
    "<|im_start|>user<|im_end|><|eot_id|><s>[INST] </s> <|endoftext|>";

std::vector<text::ChatMessage> probe_chat() {
  return {{"user", std::string(kText)}, {"assistant", "At noon, <|im_end|> I think."}, {"user", " And tomorrow? "}};
}

std::string text_body(const std::string& model) {
  JsonWriter json;
  json.begin_object().field("model", model).field("prompt", kText).field("add_special_tokens", true).end_object();
  return json.take();
}

std::string chat_body(const std::string& model) {
  JsonWriter json;
  json.begin_object().field("model", model).key("messages").begin_array();
  for (const text::ChatMessage& message : probe_chat())
    json.begin_object().field("role", message.role).field("content", message.content).end_object();
  json.end_array().field("add_generation_prompt", true).end_object();
  return json.take();
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
  ask(text_body(reader_->model()), "a text", reader_->tokens_of(kText), [this] { ask_for_chat(); });
}

void TokenizerCheck::ask_for_chat() {
  Tokens own = reader_->tokens_of(probe_chat());
  // A model for completions only refuses chats on both sides.
  if (!own) return decide(TokenizerMatch::kSame, "a text becomes the same tokens; the model takes no chats");
  ask(chat_body(reader_->model()), "a chat", std::move(own),
      [this] { decide(TokenizerMatch::kSame, "a text and a chat become the same tokens"); });
}

void TokenizerCheck::ask(std::string body, std::string_view what, Tokens own, std::function<void()> if_same) {
  net::HttpRequest request{.method = "POST", .target = "/tokenize", .headers = {}, .body = std::move(body)};
  request.headers.set("Content-Type", "application/json");
  call_ = client_->fetch(url_, std::move(request), options_.timeout,
                         [this, what, own = std::move(own), if_same = std::move(if_same)](
                             const Result<net::HttpResponse>& answer) { on_answer(answer, what, own, if_same); });
}

void TokenizerCheck::on_answer(const Result<net::HttpResponse>& answer, std::string_view what, const Tokens& own,
                               const std::function<void()>& if_same) {
  if (!answer) return decide(TokenizerMatch::kUnknown, "no answer: " + answer.error().message);
  if (answer->status == 404 || answer->status == 405 || answer->status == 501)
    return decide(TokenizerMatch::kNotTold, fmt::format("/tokenize answered {}", answer->status));
  if (answer->status != 200)
    return decide(TokenizerMatch::kUnknown, fmt::format("/tokenize answered {} for {}", answer->status, what));
  const Tokens theirs = openai::parse_tokenize_answer(answer->body);
  if (!theirs) return decide(TokenizerMatch::kUnknown, "/tokenize: " + theirs.error().message);
  if (*theirs == *own) return std::function(if_same)();  // a copy: the next question replaces this call
  const auto [mine, other] = std::ranges::mismatch(*own, *theirs);
  decide(TokenizerMatch::kDifferent, fmt::format("{} becomes {} tokens there and {} here, different from the {}th on",
                                                 what, theirs->size(), own->size(), mine - own->begin() + 1));
}

void TokenizerCheck::decide(TokenizerMatch match, std::string_view why) {
  const bool changed = match != match_;
  match_ = match;
  const std::string text = fmt::format("tokenizer of {}: {} ({})", worker_, to_string(match), why);
  if (match == TokenizerMatch::kDifferent) {
    telemetry::log_error(kComponent, text + "; its KV events are not matched with prompts");
  } else if (match == TokenizerMatch::kSame) {
    if (changed) telemetry::log_info(kComponent, text);
  } else if (changed || pause_ == options_.pause) {
    telemetry::log_warning(kComponent, text);
  }
  if (match == TokenizerMatch::kUnknown) ask_later();
  if (changed) on_change_();
}

void TokenizerCheck::ask_later() {
  timer_.arm(net::now() + pause_, [this] { ask_for_text(); });
  pause_ = std::min(2 * pause_, options_.longest_pause);
}

}  // namespace kvist::gateway

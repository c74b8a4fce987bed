#include "kvist/worker/answer.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/openai/errors.h"
#include "kvist/worker/http_reply.h"

namespace kvist::worker {
namespace {

std::string_view name_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kAborted:
      return "abort";
  }
  return "stop";
}

// Bytes that do not continue one.
std::size_t characters_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

}  // namespace

Answer::Answer(std::shared_ptr<net::HttpExchange> exchange, const text::Tokenizer& tokenizer, AnswerOptions options,
               std::vector<RequestId> choices)
    : exchange_(std::move(exchange)),
      tokenizer_(&tokenizer),
      options_(std::move(options)),
      writer_(options_.head),
      requests_(std::move(choices)),
      choices_(requests_.size(), Choice(tokenizer)),
      open_choices_(requests_.size()) {
  if (options_.stop.empty()) return;
  for (Choice& choice : choices_) {
    // The parser's bounds are the narrower ones.
    Result<text::StopMatcher> matcher = text::StopMatcher::create(options_.stop, options_.include_stop);
    KVIST_CHECK(matcher.has_value(), "stop strings that were read are refused");
    choice.stop = *std::move(matcher);
  }
}

void Answer::begin() {
  if (!options_.stream) return;
  net::Headers headers = reply_headers("text/event-stream; charset=utf-8", options_.request_id);
  headers.add("Cache-Control", "no-cache");
  exchange_->begin_stream(200, std::move(headers));
}

openai::TokenLogprob Answer::as_text(const engine::TokenLogprob& logprob) const {
  openai::TokenLogprob result{.token = {}, .logprob = logprob.logprob};
  tokenizer_->decode(logprob.token, result.token);
  return result;
}

std::vector<openai::TokenLogprobs> Answer::as_text(std::span<const engine::TokenLogprobs> logprobs) const {
  std::vector<openai::TokenLogprobs> result;
  for (const engine::TokenLogprobs& token : logprobs) {
    openai::TokenLogprobs& written = result.emplace_back();
    written.chosen = as_text(token.chosen);
    for (const engine::TokenLogprob& other : token.likeliest) written.likeliest.push_back(as_text(other));
  }
  return result;
}

void Answer::end_choice(std::size_t index, const engine::RequestOutput& output) {
  choices_[index].ended = true;
  --open_choices_;
  // A prompt counts once, however many answers it has.
  if (index % options_.answers_per_prompt == 0) {
    usage_.prompt_tokens += output.prompt_tokens;
    usage_.cached_tokens += output.cached_tokens;
  }
  usage_.completion_tokens += output.output_tokens;
}

void Answer::add(std::size_t index, const engine::RequestOutput& output,
                 std::span<const engine::TokenLogprobs> logprobs) {
  Choice& choice = choices_[index];
  std::string text;
  for (const TokenId token : output.tokens) text += choice.stop.push(choice.decoder.push(token));
  if (output.finish && !choice.stop.stopped()) {
    text += choice.stop.push(choice.decoder.finish());
    text += choice.stop.finish();
  }
  std::string_view finish;
  if (choice.stop.stopped()) {
    finish = name_of(engine::FinishReason::kStop);
  } else if (output.finish) {
    finish = name_of(*output.finish);
  }
  if (!finish.empty()) end_choice(index, output);
  const std::vector<openai::TokenLogprobs> written = as_text(logprobs);
  if (options_.stream) return stream(index, text, finish, written);
  choice.whole.text += text;
  choice.whole.logprobs.insert(choice.whole.logprobs.end(), written.begin(), written.end());
  choice.whole.finish_reason = finish;
  if (!complete()) return;
  std::vector<openai::WholeChoice> whole;
  whole.reserve(choices_.size());
  for (Choice& ended : choices_) whole.push_back(std::move(ended.whole));
  exchange_->respond(json_reply(200, openai::whole_answer(options_.head, whole, usage_), options_.request_id));
}

template <class Append>
void Answer::append_event(const Append& append) {
  buffer_ += "data: ";
  append();
  buffer_ += "\n\n";
}

// All of a step goes out in one write.
void Answer::stream(std::size_t index, std::string_view text, std::string_view finish,
                    std::span<const openai::TokenLogprobs> logprobs) {
  const auto choice = static_cast<std::uint32_t>(index);
  buffer_.clear();
  if (options_.head.chat && !choices_[index].begun) append_event([&] { writer_.append_role(buffer_, choice); });
  choices_[index].begun = true;
  if (!logprobs.empty()) {
    append_event([&] { writer_.append_text(buffer_, choice, text, logprobs, choices_[index].characters); });
    for (const openai::TokenLogprobs& token : logprobs) choices_[index].characters += characters_of(token.chosen.token);
  } else if (!text.empty()) {
    append_event([&] { writer_.append_text(buffer_, choice, text); });
  }
  if (!finish.empty()) append_event([&] { writer_.append_finish(buffer_, choice, finish); });
  if (complete()) return end_stream();
  exchange_->write(buffer_);
}

void Answer::end_stream() {
  if (options_.include_usage) append_event([&] { writer_.append_usage(buffer_, usage_); });
  append_event([&] { buffer_ += "[DONE]"; });
  exchange_->write(buffer_);
  exchange_->end_stream();
}

void Answer::fail(const Error& error) {
  open_choices_ = 0;
  if (!options_.stream) return exchange_->respond(error_reply(error, options_.request_id));
  buffer_.clear();
  append_event([&] { buffer_ += openai::error_body(error); });
  exchange_->write(buffer_);
  exchange_->end_stream();
}

}  // namespace kvist::worker

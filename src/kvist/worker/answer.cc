#include "kvist/worker/answer.h"

#include <utility>

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

}  // namespace

Answer::Answer(std::shared_ptr<net::HttpExchange> exchange, const text::Tokenizer& tokenizer, AnswerOptions options,
               std::vector<RequestId> choices)
    : exchange_(std::move(exchange)),
      options_(std::move(options)),
      writer_(options_.head),
      requests_(std::move(choices)),
      choices_(requests_.size(), Choice(tokenizer)),
      open_choices_(requests_.size()) {}

void Answer::begin() {
  if (!options_.stream) return;
  net::Headers headers = reply_headers("text/event-stream; charset=utf-8", options_.request_id);
  headers.add("Cache-Control", "no-cache");
  exchange_->begin_stream(200, std::move(headers));
}

void Answer::add(std::size_t index, const engine::RequestOutput& output) {
  Choice& choice = choices_[index];
  std::string text;
  for (const TokenId token : output.tokens) text += choice.decoder.push(token);
  if (output.finish) {
    text += choice.decoder.finish();
    --open_choices_;
    usage_.prompt_tokens += output.prompt_tokens;
    usage_.cached_tokens += output.cached_tokens;
    usage_.completion_tokens += output.output_tokens;
  }
  if (options_.stream) return stream(index, text, output);
  choice.whole.text += text;
  if (output.finish) choice.whole.finish_reason = name_of(*output.finish);
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
void Answer::stream(std::size_t index, std::string_view text, const engine::RequestOutput& output) {
  const auto choice = static_cast<std::uint32_t>(index);
  buffer_.clear();
  if (options_.head.chat && !choices_[index].begun) append_event([&] { writer_.append_role(buffer_, choice); });
  choices_[index].begun = true;
  if (!text.empty()) append_event([&] { writer_.append_text(buffer_, choice, text); });
  if (output.finish) append_event([&] { writer_.append_finish(buffer_, choice, name_of(*output.finish)); });
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

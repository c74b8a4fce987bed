#include "kvist/worker/answer.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/random.h"
#include "kvist/base/utf8.h"
#include "kvist/openai/errors.h"
#include "kvist/openai/resumption.h"
#include "kvist/worker/http_reply.h"

namespace kvist::worker {
namespace {

constexpr std::size_t kMostArgumentBytes = 16UL << 10;  // of a call in one event
constexpr std::size_t kMostEchoedBytes = 64UL << 10;    // of an echoed prompt in one event
constexpr std::size_t kMostEchoedTokens = 128;          // likewise, with log probabilities

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

// Ids have to be unique in a conversation. They differ between the answers of a worker, and between workers by the
// client's request id and the time. Mistral's templates accept only nine letters and digits.
std::string call_id(spec::ToolCallFormat format, const openai::AnswerHead& head, RequestId request, std::size_t call) {
  constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr std::size_t kCharacters = 9;
  std::uint64_t number =
      mix_seed({seed_part(head.id), static_cast<std::uint64_t>(head.created), request.value(), call});
  std::string id = format == spec::ToolCallFormat::kMistral ? "" : "call_";
  for (std::size_t i = 0; i < kCharacters; ++i, number /= kAlphabet.size()) id += kAlphabet[number % kAlphabet.size()];
  return id;
}

std::size_t calls_in(const std::vector<tool_calls::AnswerPart>& parts) {
  return static_cast<std::size_t>(std::ranges::count_if(parts, [](const auto& part) { return part.call.has_value(); }));
}

}  // namespace

Answer::Answer(std::shared_ptr<net::HttpExchange> exchange, const tokenizer::Tokenizer& tokenizer,
               AnswerOptions options, std::vector<RequestId> choices)
    : exchange_(std::move(exchange)),
      tokenizer_(&tokenizer),
      options_(std::move(options)),
      writer_(options_.head),
      requests_(std::move(choices)),
      open_choices_(requests_.size()) {
  choices_.reserve(requests_.size());
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const std::size_t prompt = i / options_.answers_per_prompt;
    Choice& choice =
        choices_.emplace_back(tokenizer, prompt < options_.follows_text.size() && options_.follows_text[prompt]);
    choice.whole.logprobs = openai::LogprobsText(options_.head.chat);
    if (options_.tool_calls) choice.parser = tool_calls::make_tool_call_parser(*options_.tool_calls);
    if (options_.stop.empty()) continue;
    // The request parser has narrower bounds, so this does not fail.
    Result<text::StopMatcher> matcher = text::StopMatcher::create(options_.stop, options_.include_stop);
    KVIST_CHECK(matcher.has_value(), "stop strings that were read are refused");
    choice.stop = *std::move(matcher);
  }
  if (!options_.resumed.empty()) take_over(choices_.front());
}

// The same steps as for tokens of this engine, without output. So what the other worker held back (a part of a
// character, of a stop string) is held back here.
void Answer::take_over(Choice& choice) {
  choice.begun = true;
  // What an echo adds, too, the client has.
  if (options_.echoes_logprobs)
    for (const TokenId token : prompt_of(0)) choice.characters += characters_of(text_of(token));
  for (std::size_t i = 0; i < options_.resumed.size(); ++i) {
    const TokenId token = options_.resumed[i];
    (void)choice.stop.push(text_of(choice, token), i >= options_.min_tokens);
    choice.characters += characters_of(text_of(token));
  }
  choice.usage.completion_tokens = static_cast<std::uint32_t>(options_.resumed.size());
}

void Answer::begin() {
  if (!options_.stream) return;
  net::Headers headers = reply_headers("text/event-stream; charset=utf-8", options_.request_id);
  headers.add("Cache-Control", "no-cache");
  if (options_.resumable) {
    headers.add(std::string(openai::kResumableHeader), std::to_string(options_.head.created));
  } else if (!options_.why_not_resumable.empty()) {
    headers.add(std::string(openai::kResumableHeader), std::string(options_.why_not_resumable));
  }
  exchange_->begin_stream(200, std::move(headers));
}

std::string Answer::text_of(TokenId token) const {
  if (tokenizer_->is_special(token)) return std::string(tokenizer_->spelling(token));
  std::string text;
  tokenizer_->decode(token, text);
  return text;
}

openai::TokenLogprob Answer::as_text(const engine::TokenLogprob& logprob) const {
  return {.token = text_of(logprob.token), .logprob = logprob.logprob};
}

openai::TokenLogprobs Answer::first_of_prompt(std::size_t index) const {
  return {.chosen = {.token = text_of(prompt_of(index).front())}, .is_first = true};
}

std::vector<std::vector<openai::RankedLogprob>> Answer::ranked(std::size_t index,
                                                               std::span<const engine::TokenLogprobs> logprobs) const {
  std::vector<std::vector<openai::RankedLogprob>> positions(prompt_of(index).empty() ? 0 : 1);
  for (const engine::TokenLogprobs& token : logprobs) {
    std::vector<openai::RankedLogprob>& position = positions.emplace_back();
    position.push_back({.id = token.chosen.token, .token = as_text(token.chosen), .rank = token.rank});
    for (std::uint32_t i = 0; i < token.likeliest.size(); ++i)
      position.push_back({.id = token.likeliest[i].token, .token = as_text(token.likeliest[i]), .rank = i + 1});
  }
  return positions;
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

// A mark of calls that is a special token decodes to no text, so its spelling is used.
std::string Answer::text_of(Choice& choice, TokenId token) const {
  if (!options_.skip_special_tokens && tokenizer_->is_special(token))
    return choice.decoder.finish().append(tokenizer_->spelling(token));
  if (choice.parser && tokenizer_->is_special(token)) {
    const std::string_view spelling = tokenizer_->spelling(token);
    const std::span<const std::string_view> marks = tool_calls::tool_call_marks(*options_.tool_calls);
    if (std::ranges::find(marks, spelling) != marks.end()) return choice.decoder.finish().append(spelling);
  }
  return choice.decoder.push(token);
}

// The parts of a choice that `text` completes: content and calls in order, with the calls' ids.
std::vector<tool_calls::AnswerPart> Answer::parts_of(std::size_t index, std::string text, bool ends) {
  Choice& choice = choices_[index];
  std::vector<tool_calls::AnswerPart> parts;
  if (!choice.parser) {
    if (!text.empty()) parts.push_back({.content = std::move(text)});
    return parts;
  }
  choice.parser->push(text, parts);
  if (ends) choice.parser->finish(parts);
  std::erase_if(parts, [&](tool_calls::AnswerPart& part) {
    if (!part.call) return false;
    if (choice.calls > 0 && !options_.several_calls) return true;
    part.call->id = call_id(*options_.tool_calls, options_.head, requests_[index], choice.calls++);
    return false;
  });
  return parts;
}

// A step with drafts may have tokens behind the one that completed a stop string, which the model would not have been
// asked for without drafts: they are no part of the answer.
std::size_t Answer::push(Choice& choice, const engine::RequestOutput& output, std::string& text) const {
  const std::size_t before = options_.resumed.size() + output.output_tokens - output.tokens.size();
  for (std::size_t i = 0; i < output.tokens.size() && !options_.echoes_only; ++i) {
    // The token that ends an answer is no part of its text, as in vLLM: a stop token may be an ordinary word.
    const bool is_end = output.finish == engine::FinishReason::kStop && i + 1 == output.tokens.size();
    if (is_end && !options_.include_stop) break;
    text += choice.stop.push(text_of(choice, output.tokens[i]), before + i >= options_.min_tokens);
    if (choice.stop.stopped()) return i + 1;
  }
  // An incomplete character at the end is dropped, as in vLLM.
  if (output.finish) text += choice.stop.finish();
  return output.tokens.size();
}

void Answer::end_choice(std::size_t index, const engine::RequestOutput& output, std::size_t behind) {
  choices_[index].ended = true;
  --open_choices_;
  // A prompt counts once, for any number of answers.
  const auto resumed = static_cast<std::uint32_t>(options_.resumed.size());
  if (index % options_.answers_per_prompt == 0) {
    const std::uint32_t prompt_tokens = output.prompt_tokens - resumed;
    usage_.prompt_tokens += prompt_tokens;
    usage_.cached_tokens += std::min(output.cached_tokens, prompt_tokens);
  }
  if (!options_.echoes_only)
    usage_.completion_tokens += output.output_tokens + resumed - static_cast<std::uint32_t>(behind);
}

void Answer::add_to_whole(Choice& choice, std::vector<tool_calls::AnswerPart> parts, std::span<const TokenId> tokens,
                          std::span<const openai::TokenLogprobs> logprobs) const {
  for (tool_calls::AnswerPart& part : parts) {
    choice.whole.text += part.content;
    if (part.call) choice.whole.tool_calls.push_back(*std::move(part.call));
  }
  choice.whole.logprobs.add(logprobs);
  if (!returns_tokens()) return;
  if (!choice.whole.tokens) choice.whole.tokens.emplace();
  choice.whole.tokens->insert(choice.whole.tokens->end(), tokens.begin(), tokens.end());
}

void Answer::add(std::size_t index, const engine::RequestOutput& output, const engine::SampledLogprobs* logprobs) {
  Choice& choice = choices_[index];
  choice.usage.prompt_tokens = output.prompt_tokens - static_cast<std::uint32_t>(options_.resumed.size());
  std::string text;
  const std::size_t count = push(choice, output, text);
  std::string_view finish;
  if (choice.stop.stopped()) {
    finish = name_of(engine::FinishReason::kStop);
  } else if (output.finish) {
    finish = name_of(options_.echoes_only ? engine::FinishReason::kLength : *output.finish);
  }
  if (!finish.empty()) end_choice(index, output, output.tokens.size() - count);
  std::vector<tool_calls::AnswerPart> parts = parts_of(index, std::move(text), choice.ended);
  if (choice.calls > 0 && finish == name_of(engine::FinishReason::kStop)) finish = "tool_calls";
  std::vector<openai::TokenLogprobs> echoed;
  if (options_.echoes_logprobs && logprobs != nullptr && logprobs->prompt) {
    echoed = as_text(*logprobs->prompt);
    echoed.insert(echoed.begin(), first_of_prompt(index));
  }
  if (options_.returns_prompt_logprobs && logprobs != nullptr && logprobs->prompt)
    choice.whole.prompt_logprobs = ranked(index, *logprobs->prompt);
  std::vector<openai::TokenLogprobs> written;
  if (logprobs != nullptr && !options_.echoes_only) {
    const auto own = std::span(logprobs->tokens).first(std::min(count, logprobs->tokens.size()));
    if (!options_.drops_logprobs) written = as_text(own);
    for (const engine::TokenLogprobs& token : own) choice.logprob_sum += static_cast<double>(token.chosen.logprob);
    choice.logprobs += own.size();
  }
  const std::span<const TokenId> tokens =
      options_.echoes_only ? std::span<const TokenId>() : std::span(output.tokens).first(count);
  if (options_.stream) {
    if (echoes() && !choice.begun) stream_echo(index, echoed);
    return stream(index, parts, finish, tokens, written);
  }
  add_to_whole(choice, {}, {}, echoed);
  add_to_whole(choice, std::move(parts), tokens, written);
  choice.whole.finish_reason = finish;
  choice.whole.stop_reason = choice.stop.stop();
  if (complete()) respond_whole();
}

// Of equally likely ones the first.
std::vector<std::size_t> Answer::given_choices() const {
  std::vector<std::size_t> given(choices_.size());
  std::iota(given.begin(), given.end(), std::size_t{0});
  const std::size_t per_prompt = options_.answers_per_prompt;
  if (options_.best_per_prompt == 0 || options_.best_per_prompt == per_prompt) return given;
  const auto mean = [&](std::size_t i) {
    const Choice& choice = choices_[i];
    return choice.logprob_sum / static_cast<double>(std::max<std::size_t>(choice.logprobs, 1));
  };
  std::vector<std::size_t> best;
  for (std::size_t first = 0; first < given.size(); first += per_prompt) {
    const std::span<std::size_t> of_prompt = std::span(given).subspan(first, per_prompt);
    std::ranges::stable_sort(of_prompt, std::greater{}, mean);
    best.insert(best.end(), of_prompt.begin(), of_prompt.begin() + options_.best_per_prompt);
  }
  return best;
}

void Answer::respond_whole() {
  std::vector<openai::WholeChoice> whole;
  for (const std::size_t i : given_choices()) {
    openai::WholeChoice& choice = whole.emplace_back(std::move(choices_[i].whole));
    if (echoes()) choice.text.insert(0, echo_of(i));
    if (returns_tokens()) choice.prompt_tokens = prompt_of(i);
  }
  exchange_->respond(json_reply(200, openai::whole_answer(options_.head, whole, usage_), options_.request_id));
}

template <class Append>
void Answer::append_event(const Append& append) {
  buffer_ += "data: ";
  append();
  buffer_ += "\n\n";
  ++events_;
}

template <class Append>
void Answer::append_chunk(std::size_t index, const Append& append) {
  append_event([&] {
    append();
    if (options_.continuous_usage) openai::ChunkWriter::add_usage(buffer_, choices_[index].usage);
  });
}

// The first chunk of a chat's choice has its role, of a completion's nothing of its own.
void Answer::begin_choice(std::size_t index) {
  choices_[index].begun = true;
  if (!options_.head.chat) return;
  append_chunk(index, [&] {
    writer_.append_role(buffer_, static_cast<std::uint32_t>(index));
    if (returns_tokens()) openai::ChunkWriter::add_prompt_tokens(buffer_, prompt_of(index));
  });
}

void Answer::stream_echo(std::size_t index, std::span<const openai::TokenLogprobs> logprobs) {
  const auto number = static_cast<std::uint32_t>(index);
  for (std::string_view rest = echo_of(index); !rest.empty();) {
    std::size_t size = rest.size();
    if (size > kMostEchoedBytes) size = kMostEchoedBytes - utf8_incomplete_tail(rest.substr(0, kMostEchoedBytes));
    append_chunk(index, [&] { writer_.append_text(buffer_, number, rest.substr(0, size)); });
    rest.remove_prefix(size);
  }
  while (!logprobs.empty()) {
    const auto some = logprobs.first(std::min(logprobs.size(), kMostEchoedTokens));
    append_chunk(index, [&] { writer_.append_text(buffer_, number, "", some, choices_[index].characters); });
    for (const openai::TokenLogprobs& token : some) choices_[index].characters += characters_of(token.chosen.token);
    logprobs = logprobs.subspan(some.size());
  }
}

// Everything of a step is sent in one write.
void Answer::stream(std::size_t index, const std::vector<tool_calls::AnswerPart>& parts, std::string_view finish,
                    std::span<const TokenId> tokens, std::span<const openai::TokenLogprobs> logprobs) {
  const auto number = static_cast<std::uint32_t>(index);
  Choice& choice = choices_[index];
  if (options_.resumable) noted_tokens_.insert(noted_tokens_.end(), tokens.begin(), tokens.end());
  const bool first = !choice.begun;
  if (first) begin_choice(index);
  choice.usage.completion_tokens += static_cast<std::uint32_t>(tokens.size());
  auto part = parts.begin();
  if (!logprobs.empty() || (returns_tokens() && !tokens.empty())) {
    // Log probabilities go with the first text of the step, even if it is empty, because the tokens' text may still be
    // held back.
    const std::string_view text = part != parts.end() && !part->call ? (part++)->content : std::string_view();
    append_chunk(index, [&] {
      writer_.append_text(buffer_, number, text, logprobs, choice.characters);
      if (!returns_tokens()) return;
      openai::ChunkWriter::add_to_choice(buffer_, "token_ids", tokens);
      if (first && !options_.head.chat)
        openai::ChunkWriter::add_to_choice(buffer_, "prompt_token_ids", prompt_of(index));
    });
    for (const openai::TokenLogprobs& token : logprobs) choice.characters += characters_of(token.chosen.token);
  }
  std::size_t call = choice.calls - calls_in(parts);
  for (; part != parts.end(); ++part) {
    if (part->call) {
      stream_call(index, call++, *part->call);
    } else {
      append_chunk(index, [&] { writer_.append_text(buffer_, number, part->content); });
    }
  }
  if (!finish.empty()) append_chunk(index, [&] { writer_.append_finish(buffer_, number, finish, choice.stop.stop()); });
  if (complete()) return end_stream();
  send();
}

// Arguments are sent in parts, so that no event is much larger than one part.
void Answer::stream_call(std::size_t index, std::size_t call, const text::ToolCall& whole) {
  const auto choice = static_cast<std::uint32_t>(index);
  append_chunk(index, [&] { writer_.append_call(buffer_, choice, call, whole); });
  for (std::string_view rest = whole.arguments; !rest.empty();) {
    std::size_t size = std::min(rest.size(), kMostArgumentBytes);
    size -= utf8_incomplete_tail(rest.substr(0, size));
    append_chunk(index, [&] { writer_.append_arguments(buffer_, choice, call, rest.substr(0, size)); });
    rest.remove_prefix(size);
  }
}

void Answer::end_stream() {
  if (options_.include_usage) append_event([&] { writer_.append_usage(buffer_, usage_); });
  append_event([&] { buffer_ += "[DONE]"; });
  send();
  exchange_->end_stream();
}

void Answer::send() {
  if (options_.resumable && events_ > 0) {
    std::string note;
    openai::append_token_note(note, events_, noted_tokens_);
    buffer_.insert(0, note);
    noted_tokens_.clear();
  }
  exchange_->write(buffer_);
  buffer_.clear();
  events_ = 0;
}

void Answer::fail(const Error& error) {
  open_choices_ = 0;
  if (!options_.stream) return exchange_->respond(error_reply(error, options_.request_id));
  append_event([&] { buffer_ += openai::error_body(error); });
  exchange_->write(std::exchange(buffer_, {}));
  exchange_->end_stream();
}

}  // namespace kvist::worker

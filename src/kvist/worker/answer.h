// The answer to one generation request while the engine generates its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/engine/request.h"
#include "kvist/engine/step.h"
#include "kvist/net/http_server.h"
#include "kvist/openai/chunk_writer.h"
#include "kvist/openai/codec.h"
#include "kvist/text/stop_matcher.h"
#include "kvist/text/stream_decoder.h"
#include "kvist/tool_calls/tool_call_parser.h"

namespace kvist::worker {

struct AnswerOptions {
  openai::AnswerHead head;
  std::string request_id;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;         ///< every chunk has the usage of its choice so far
  std::uint32_t answers_per_prompt = 1;  ///< consecutive choices that answer the same prompt
  std::vector<std::string> stop = {};    ///< texts that end a choice
  bool include_stop = false;             ///< the stop string is a part of the choice
  std::uint32_t min_tokens = 0;          ///< no stop string counts that ends in the text of the first so many tokens
  bool skip_special_tokens = true;       ///< false: special tokens are a part of the text, by their spelling
  /// The format in which tool calls are searched for; none: all text is content.
  std::optional<spec::ToolCallFormat> tool_calls = {};
  bool several_calls = true;  ///< false: calls after a choice's first are dropped, as the client asked
  /// For each prompt, whether it has text before its answer, which then is no beginning; empty: none has.
  std::vector<bool> follows_text = {};
  std::vector<std::vector<TokenId>> prompts = {};  ///< the prompts' tokens, if the answer contains anything of them
  bool returns_tokens = false;                     ///< return_token_ids: those of the prompts and its own
  bool returns_prompt_logprobs = false;            ///< only of a whole answer
  /// The prompts' texts, if each choice begins with its prompt's (echo); then completions only.
  std::vector<std::string> echoes = {};
  bool echoes_logprobs = false;  ///< with the log probabilities of the prompt's tokens before its own
  bool echoes_only = false;      ///< what is generated is dropped (max_tokens 0)
  /// Of the choices that answer the same prompt so many are given, those with the highest mean log probability per
  /// token (best_of); 0: all. Only of a whole answer.
  std::uint32_t best_per_prompt = 0;
  bool drops_logprobs = false;  ///< they were only needed to find the best
  /// Each group of events is preceded by a note of the tokens that the answer has with it (openai/resumption.h).
  /// Requires: a stream of one choice, without tool calls. The same for the next.
  bool resumable = false;
  std::string_view why_not_resumable = {};  ///< the client's proxy asked for that, but the answer cannot be resumed
  /// Tokens of the answer that another worker gave, and whose text the client has.
  std::vector<TokenId> resumed = {};
};

/// Turns engine outputs into an SSE stream or one document. One choice per engine request. Memory: the text of an
/// answer that is not streamed, or what a slow client has not read yet, which the owner bounds by unsent_bytes().
/// Threads: the loop's.
class Answer {
 public:
  /// `choices` are the engine's requests in the order of their indices. `tokenizer` must outlive it.
  Answer(std::shared_ptr<net::HttpExchange> exchange, const tokenizer::Tokenizer& tokenizer, AnswerOptions options,
         std::vector<RequestId> choices);

  /// Sends the head of a stream. Does nothing for an answer that is not streamed.
  void begin();
  /// `logprobs` are those that come with the output; null: none.
  void add(std::size_t choice, const engine::RequestOutput& output, const engine::SampledLogprobs* logprobs);
  /// Ends the answer with an error: as a frame in a begun stream, otherwise as the response.
  void fail(const Error& error);
  [[nodiscard]] bool complete() const { return open_choices_ == 0; }
  /// Whether a choice has ended, by the engine or by a stop string.
  [[nodiscard]] bool has_ended(std::size_t choice) const { return choices_[choice].ended; }
  /// Whether a stop string ended it, which the engine does not know.
  [[nodiscard]] bool was_stopped(std::size_t choice) const { return choices_[choice].stop.stopped(); }
  [[nodiscard]] const std::vector<RequestId>& choices() const { return requests_; }
  [[nodiscard]] std::size_t unsent_bytes() const { return exchange_->unsent_bytes(); }

 private:
  struct Choice {
    Choice(const tokenizer::Tokenizer& tokenizer, bool follows_text) : decoder(tokenizer, follows_text) {}
    text::StreamDecoder decoder;
    text::StopMatcher stop;
    std::unique_ptr<tool_calls::ToolCallParser> parser;  // null: all is content
    std::size_t calls = 0;                               // so far
    bool ended = false;
    bool begun = false;          // its role has been sent
    std::size_t characters = 0;  // number of characters of its tokens so far, for log probabilities
    double logprob_sum = 0;      // of its tokens, whose number is the next
    std::size_t logprobs = 0;
    openai::Usage usage;  // so far
    openai::WholeChoice whole;
  };

  [[nodiscard]] std::vector<openai::TokenLogprobs> as_text(std::span<const engine::TokenLogprobs> logprobs) const;
  [[nodiscard]] openai::TokenLogprob as_text(const engine::TokenLogprob& logprob) const;
  /// The text of a token by itself; a special token's is its spelling, as in vLLM.
  [[nodiscard]] std::string text_of(TokenId token) const;
  [[nodiscard]] openai::TokenLogprobs first_of_prompt(std::size_t index) const;
  [[nodiscard]] std::vector<std::vector<openai::RankedLogprob>> ranked(
      std::size_t index, std::span<const engine::TokenLogprobs> logprobs) const;
  [[nodiscard]] std::string text_of(Choice& choice, TokenId token) const;
  [[nodiscard]] std::vector<tool_calls::AnswerPart> parts_of(std::size_t index, std::string text, bool ends);
  /// Brings the only choice into the state behind the tokens that another worker gave.
  void take_over(Choice& choice);
  /// Appends the text that the output adds to the choice. Returns how many of its tokens belong to the answer.
  [[nodiscard]] std::size_t push(Choice& choice, const engine::RequestOutput& output, std::string& text) const;
  /// `behind` of the output's tokens are none of the answer's.
  void end_choice(std::size_t index, const engine::RequestOutput& output, std::size_t behind);
  void add_to_whole(Choice& choice, std::vector<tool_calls::AnswerPart> parts, std::span<const TokenId> tokens,
                    std::span<const openai::TokenLogprobs> logprobs) const;
  [[nodiscard]] bool returns_tokens() const { return options_.returns_tokens; }
  [[nodiscard]] bool echoes() const { return !options_.echoes.empty(); }
  [[nodiscard]] const std::vector<TokenId>& prompt_of(std::size_t index) const {
    return options_.prompts[index / options_.answers_per_prompt];
  }
  [[nodiscard]] const std::string& echo_of(std::size_t index) const {
    return options_.echoes[index / options_.answers_per_prompt];
  }
  void begin_choice(std::size_t index);
  /// Streams the prompt of a choice: its text, then its log probabilities, in events of bounded size.
  void stream_echo(std::size_t index, std::span<const openai::TokenLogprobs> logprobs);
  /// The choices that the client gets, in order.
  [[nodiscard]] std::vector<std::size_t> given_choices() const;
  void respond_whole();
  void stream(std::size_t index, const std::vector<tool_calls::AnswerPart>& parts, std::string_view finish,
              std::span<const TokenId> tokens, std::span<const openai::TokenLogprobs> logprobs);
  void stream_call(std::size_t index, std::size_t call, const text::ToolCall& whole);
  void end_stream();
  /// Sends what was appended.
  void send();
  /// Makes an SSE event of what `append` writes to the buffer.
  template <class Append>
  void append_event(const Append& append);
  /// Like the function above, for a chunk of a choice, which may have the usage so far.
  template <class Append>
  void append_chunk(std::size_t index, const Append& append);

  std::shared_ptr<net::HttpExchange> exchange_;
  const tokenizer::Tokenizer* tokenizer_;
  AnswerOptions options_;
  openai::ChunkWriter writer_;
  std::vector<RequestId> requests_;
  std::vector<Choice> choices_;
  std::size_t open_choices_;
  openai::Usage usage_;                // of the choices that have ended
  std::string buffer_;                 // kept for its memory
  std::uint32_t events_ = 0;           // in buffer_
  std::vector<TokenId> noted_tokens_;  // to be noted with the next events, if the stream is resumable
};

}  // namespace kvist::worker

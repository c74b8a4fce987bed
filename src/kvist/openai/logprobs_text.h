// Log probabilities as JSON text that grows with an answer.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kvist/openai/types.h"

namespace kvist::openai {

/// What a chunk or an answer has after "logprobs":. It is written as the tokens come, because those of a long answer
/// are many megabytes: written at its end, they would take seconds in which nothing else is sent.
class LogprobsText {
 public:
  /// None, which is written as null.
  LogprobsText() = default;
  /// `text_offset`: characters of the choice's text before the first token, which completions count.
  explicit LogprobsText(bool chat, std::span<const TokenLogprobs> tokens = {}, std::size_t text_offset = 0)
      : chat_(chat), text_offset_(text_offset) {
    add(tokens);
  }

  void add(std::span<const TokenLogprobs> tokens);
  void append_to(std::string& out) const;

 private:
  void add_to_chat(const TokenLogprobs& token);
  void add_to_completion(const TokenLogprobs& token);

  bool chat_ = true;
  std::size_t text_offset_ = 0;
  // The items of JSON arrays; those of a chat have everything in `tokens_`.
  std::string tokens_;
  std::string offsets_;
  std::string logprobs_;
  std::string likeliest_;
};

}  // namespace kvist::openai

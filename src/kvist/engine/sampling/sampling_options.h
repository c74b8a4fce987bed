// The sampling parameters of a request.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::engine {

struct TokenBias {
  TokenId token;
  float bias = 0;  ///< added to the logit

  bool operator==(const TokenBias&) const = default;
};

/// The parameters of the OpenAI API and vLLM's, with their names and neutral values. They apply in this order: biases
/// and bans, penalties, temperature, min-p, top-k, top-p.
struct SamplingOptions {
  static constexpr std::uint32_t kMostLogprobs = 20;

  float temperature = 1;         ///< 0: greedy, the likeliest token, of equal ones the lower id
  std::uint32_t top_k = 0;       ///< only so many of the likeliest tokens; 0: all
  float top_p = 1;               ///< only the fewest likeliest tokens with at least this probability together
  float min_p = 0;               ///< only tokens with at least this share of the likeliest one's probability
  float presence_penalty = 0;    ///< subtracted from the logit of every token that the answer contains
  float frequency_penalty = 0;   ///< subtracted once per occurrence in the answer
  float repetition_penalty = 1;  ///< for tokens in prompt or answer: divides positive logits, multiplies negative ones
  std::vector<TokenBias> logit_bias = {};
  std::vector<TokenId> stop_tokens = {};  ///< tokens that end the answer, besides those of the model
  std::uint32_t min_tokens = 0;           ///< nothing ends the answer before it has so many tokens
  /// Return log probabilities of each token of the answer, and of so many of the likeliest ones; nothing: none at all.
  std::optional<std::uint32_t> logprobs = {};
  /// The same of the prompt's tokens, except for the first, which nothing precedes. The whole prompt is computed for
  /// it, whatever is cached.
  std::optional<std::uint32_t> prompt_logprobs = {};

  [[nodiscard]] bool penalizes() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1;
  }
  bool operator==(const SamplingOptions&) const = default;
};

}  // namespace kvist::engine

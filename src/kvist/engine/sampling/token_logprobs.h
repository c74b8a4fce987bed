// Log probabilities of one token of an answer or a prompt.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/id.h"

namespace kvist::engine {

struct TokenLogprob {
  TokenId token;
  float logprob = 0;

  bool operator==(const TokenLogprob&) const = default;
};

/// Those of the model itself, before biases, penalties and temperature, as vLLM reports them by default.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::uint32_t rank = 1;               ///< of `chosen` among all tokens, in the order of `likeliest`
  std::vector<TokenLogprob> likeliest;  ///< in descending order, the lower id first among equals

  bool operator==(const TokenLogprobs&) const = default;
};

}  // namespace kvist::engine

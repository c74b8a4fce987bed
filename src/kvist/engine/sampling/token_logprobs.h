// Log probabilities of one token of an answer.
#pragma once

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
  std::vector<TokenLogprob> likeliest;  ///< in descending order, the lower id first among equals

  bool operator==(const TokenLogprobs&) const = default;
};

}  // namespace kvist::engine

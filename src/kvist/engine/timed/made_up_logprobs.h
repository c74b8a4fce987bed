// Made-up log probabilities of a token that no model chose.
#pragma once

#include <cstdint>

#include "kvist/base/id.h"
#include "kvist/engine/sampling/token_logprobs.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::engine {

/// A position in an answer.
struct AnswerPosition {
  std::uint64_t seed = 0;  ///< the request's
  std::uint64_t position = 0;
};

/// Plausible log probabilities, for clients that ask every engine for them. `chosen` is always the likeliest token,
/// with a probability from 0.4 to 1 that is drawn from the position. The others are the ids next to `chosen` that are
/// not special tokens, and share the rest, each with half of the one before. The probabilities are in descending order,
/// sum to less than 1, and are the same in every call. There are fewer than `likeliest` if the vocabulary has no more.
[[nodiscard]] TokenLogprobs made_up_logprobs(AnswerPosition place, TokenId chosen, std::uint32_t likeliest,
                                             const tokenizer::Tokenizer& tokenizer);

}  // namespace kvist::engine

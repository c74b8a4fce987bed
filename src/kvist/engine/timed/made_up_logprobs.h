// Log probabilities of a token that no model chose.
#pragma once

#include <cstdint>

#include "kvist/base/id.h"
#include "kvist/engine/sampling/token_logprobs.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::engine {

/// A place in an answer.
struct AnswerPosition {
  std::uint64_t seed = 0;  ///< the request's
  std::uint64_t position = 0;
};

/// What a model could have said, for clients that ask for log probabilities of whichever engine they measure: `chosen`
/// is always the likeliest, with a probability from 0.4 to 1, drawn by the place; the others share what is left, each
/// half of the one before, and are the ids next to `chosen` that are no special tokens. Together below 1, in falling
/// order, the same whenever asked for. Fewer than `likeliest` where the vocabulary has no more.
[[nodiscard]] TokenLogprobs made_up_logprobs(AnswerPosition place, TokenId chosen, std::uint32_t likeliest,
                                             const tokenizer::Tokenizer& tokenizer);

}  // namespace kvist::engine

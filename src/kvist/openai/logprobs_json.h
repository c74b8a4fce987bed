// Writes log probabilities. Private to the module.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvist/openai/types.h"

namespace kvist::openai {

/// What a chunk or an answer has after "logprobs":. null if there are none. `text_offset`: characters of the choice's
/// text before the first token, which completions count.
void append_logprobs_json(std::string& out, std::span<const TokenLogprobs> tokens, bool chat, std::size_t text_offset);

/// What a choice has after "prompt_logprobs":, as vLLM writes it: for each position the tokens by their ids. See
/// WholeChoice.
void append_prompt_logprobs_json(std::string& out, std::span<const std::vector<RankedLogprob>> positions);

}  // namespace kvist::openai

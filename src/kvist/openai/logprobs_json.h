// Writes log probabilities of prompts. Private to the module.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvist/openai/types.h"

namespace kvist::openai {

/// What a choice has after "prompt_logprobs":, as vLLM writes it: for each position the tokens by their ids. See
/// WholeChoice.
void append_prompt_logprobs_json(std::string& out, std::span<const std::vector<RankedLogprob>> positions);

}  // namespace kvist::openai

// Reads the fields that determine how a prompt's text becomes tokens, and whether it is computed completely. Private to
// the module.
#pragma once

#include <cstdint>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/refused_fields.h"
#include "kvist/openai/types.h"

namespace kvist::openai {

/// The max_tokens of a completion that does not set it, as in OpenAI's API and vLLM. A chat has no default.
inline constexpr std::uint32_t kDefaultCompletionTokens = 16;

/// add_special_tokens, truncate_prompt_tokens, truncation_side. For routing, a value of another kind counts as absent,
/// because the worker will refuse it.
[[nodiscard]] Result<PromptOptions> read_prompt_options(const JsonObject& request, RequestKind kind, ReadFor purpose);

/// Whether the request needs every token of its prompt to be computed, so that the prefix cache is not read: for
/// prompt_logprobs, or echo with log probabilities.
[[nodiscard]] bool computes_whole_prompt(const JsonObject& request, RequestKind kind);

}  // namespace kvist::openai

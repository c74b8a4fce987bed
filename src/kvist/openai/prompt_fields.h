// Fields that say how a prompt's text becomes tokens, and what of it is computed. Private to the module.
#pragma once

#include "kvist/base/error.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/json_object_impl.h"
#include "kvist/openai/refused_fields.h"
#include "kvist/openai/types.h"

namespace kvist::openai {

/// add_special_tokens, truncate_prompt_tokens, truncation_side. Read for routing, a value of another kind counts as
/// absent: the server that answers says so.
[[nodiscard]] Result<PromptOptions> read_prompt_options(const JsonObject& request, RequestKind kind, ReadFor purpose);

/// Whether the request asks for something that needs every token of its prompt computed anew: prompt_logprobs, or echo
/// with log probabilities. Prefix caches are not read then.
[[nodiscard]] bool computes_whole_prompt(const JsonObject& request, RequestKind kind);

}  // namespace kvist::openai

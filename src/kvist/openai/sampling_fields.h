// Reads the fields for sampling and for the end of an answer. Private to the module.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/json.h"
#include "kvist/openai/refused_fields.h"
#include "kvist/openai/types.h"

namespace kvist::openai {

/// The number of a token.
[[nodiscard]] Result<TokenId> read_token(const JsonValue& value);
/// Errors name the field, what it was and what would be right.
[[nodiscard]] Result<Sampling> read_sampling(const JsonObject& request, RequestKind kind);
/// Reads `stop`: a string, or an array of strings. Empty ones are ignored.
[[nodiscard]] Result<std::vector<std::string>> read_stop(const JsonObject& request);

}  // namespace kvist::openai

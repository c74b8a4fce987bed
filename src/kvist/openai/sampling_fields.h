// Reads the fields for sampling and for the end of an answer. Private to the module.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/openai/json_object_impl.h"
#include "kvist/openai/refused_fields.h"
#include "kvist/openai/types.h"

namespace kvist::openai {

/// Errors name the field, what it was and what would be right.
[[nodiscard]] Result<Sampling> read_sampling(const JsonObject& request, RequestKind kind);
/// Reads `stop`: a string, or an array of strings. Empty ones are ignored.
[[nodiscard]] Result<std::vector<std::string>> read_stop(const JsonObject& request);

}  // namespace kvist::openai

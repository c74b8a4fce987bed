// The usage object, as chunks and whole answers carry it. Private to the module.
#pragma once

#include <string>

#include "kvist/openai/types.h"

namespace kvist::openai {

/// Appends {"prompt_tokens","completion_tokens","total_tokens","prompt_tokens_details":{"cached_tokens"}}.
void append_usage_json(std::string& out, const Usage& usage);

}  // namespace kvist::openai

// Token ids as JSON. Private to the module.
#pragma once

#include <span>
#include <string>

#include "kvist/base/id.h"

namespace kvist::openai {

/// [1,2,3]
void append_tokens_json(std::string& out, std::span<const TokenId> tokens);

}  // namespace kvist::openai

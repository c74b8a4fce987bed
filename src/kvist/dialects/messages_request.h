// Requests of Anthropic's Messages API as chat completions. Private to the module.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::dialects {

/// The body of a chat completion. Errors: those of translate().
[[nodiscard]] Result<std::string> chat_of_messages(std::string_view body);
/// The body of a worker's /tokenize for the same prompt. Errors: those of translate().
[[nodiscard]] Result<std::string> tokenize_of_messages(std::string_view body);

}  // namespace kvist::dialects

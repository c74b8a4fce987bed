// Requests of OpenAI's Responses API as chat completions. Private to the module.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::dialects {

struct ResponsesRequest {
  std::string chat;  ///< the body of a chat completion
  /// The fields of the request that the answer repeats, as members of a JSON object without its braces.
  std::string echo;
};

/// Errors: those of translate().
[[nodiscard]] Result<ResponsesRequest> chat_of_responses(std::string_view body);

}  // namespace kvist::dialects

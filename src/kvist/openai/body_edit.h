// Changes of a few bytes in a client's JSON text.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::openai {

/// The body with another `model` and every other byte unchanged. Requires: parse_*_request accepts the body.
[[nodiscard]] Result<std::string> with_model(std::string_view body, std::string_view model);

}  // namespace kvist::openai

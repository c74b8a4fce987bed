// Small looks into a client's JSON text, and changes of a few bytes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::openai {

/// The text that the body's first `model` is; nothing if it has none, if that is no text, or if the body is no JSON
/// object up to there. What comes behind is not looked at.
[[nodiscard]] std::optional<std::string> model_of(std::string_view body);

/// The body with another `model` and every other byte unchanged. Requires: parse_*_request accepts the body.
[[nodiscard]] Result<std::string> with_model(std::string_view body, std::string_view model);

/// The body with this `priority` and every other byte unchanged. Requires: as above.
[[nodiscard]] Result<std::string> with_priority(std::string_view body, std::int32_t priority);

}  // namespace kvist::openai

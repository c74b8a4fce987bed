// The name that somebody may have meant who wrote another one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvist {

/// The one of `names` that is fewest edits from `text` (a letter more, less or other, or two exchanged), the first of
/// equals; nothing if even that takes more than a third of its letters. Names of more than 64 bytes are not looked at.
[[nodiscard]] std::optional<std::string_view> closest_name(std::string_view text, std::span<const std::string> names);

/// "; did you mean X?", or nothing: for the end of a message.
[[nodiscard]] std::string did_you_mean(std::string_view text, std::span<const std::string> names);

}  // namespace kvist

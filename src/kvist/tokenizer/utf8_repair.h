// Replaces bytes that are not valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvist::tokenizer {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// How many bytes at the beginning of `text` one U+FFFD replaces: the longest prefix of some character ("maximal
/// subpart", Unicode 15 section 3.9, as browsers do), at least one. Requires: `text` is not empty and does not begin
/// with a complete character.
[[nodiscard]] std::size_t broken_utf8_prefix(std::string_view text);

/// Appends `text` to `out` with U+FFFD in place of everything that is not valid UTF-8.
void append_repaired_utf8(std::string_view text, std::string& out);

}  // namespace kvist::tokenizer

// What stands in for bytes that are no UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvist::tokenizer {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// How many bytes at the beginning of `text` one U+FFFD stands for: the longest beginning of some character ("maximal
/// subpart", Unicode 15 section 3.9; what decoders of the web do), at least one. Requires that `text` is not empty and
/// begins with no whole character.
[[nodiscard]] std::size_t broken_utf8_prefix(std::string_view text);

/// Appends `text` to `out` with U+FFFD for everything that is no UTF-8.
void append_repaired_utf8(std::string_view text, std::string& out);

}  // namespace kvist::tokenizer

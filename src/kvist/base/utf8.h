// Checks of UTF-8 for JSON writing and streaming detokenisation.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvist {

/// Length in bytes (1 to 4) of the valid UTF-8 sequence that `text` begins with; 0 if it begins with none (empty, a
/// stray continuation byte, an overlong form, a surrogate, above U+10FFFF, or cut short).
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

/// The number of bytes at the end of `text` that begin a character which further bytes may complete (0 to 3).
[[nodiscard]] std::size_t utf8_incomplete_tail(std::string_view text);

}  // namespace kvist

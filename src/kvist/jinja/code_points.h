// Characters of valid UTF-8 and their properties, as Python's str defines them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvist::jinja {

struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;  ///< 1 to 4
};

[[nodiscard]] bool is_valid_utf8(std::string_view text);

/// The character at byte `position`. Requires: valid UTF-8 and the position of a character.
[[nodiscard]] CodePoint code_point_at(std::string_view text, std::size_t position);

[[nodiscard]] std::size_t count_code_points(std::string_view text);

/// Byte position of character number `index`; text.size() for the one after the last and beyond.
[[nodiscard]] std::size_t position_of_code_point(std::string_view text, std::size_t index);

void append_utf8(std::string& out, char32_t code_point);

/// Whether str.isspace() is true for the character.
[[nodiscard]] bool is_space(char32_t code_point);

/// The number of bytes of white space at the beginning of `text`, and its size without the white space at its end.
[[nodiscard]] std::size_t leading_space(std::string_view text);
[[nodiscard]] std::size_t size_without_trailing_space(std::string_view text);

/// The position at or after `from` where `part` begins in `text`; npos if it does not occur. The time is linear in both
/// for all contents.
[[nodiscard]] std::size_t find_in(std::string_view text, std::string_view part, std::size_t from = 0);

/// Unicode's simple case mapping of one character (one to one: "ß" stays).
[[nodiscard]] char32_t to_upper(char32_t code_point);
[[nodiscard]] char32_t to_lower(char32_t code_point);
/// Whether str.isprintable() is true for the character: Python's repr() writes the others as escapes.
[[nodiscard]] bool is_printable(char32_t code_point);
/// Whether the character is a letter with case.
[[nodiscard]] bool is_letter(char32_t code_point);

}  // namespace kvist::jinja

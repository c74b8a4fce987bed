// Code points of text that is known to be valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kvist::tokenizer {

struct CodePoint {
  std::uint32_t value = 0;
  std::size_t bytes = 1;
};

/// The character at `at`. Requires: valid UTF-8, and `at` is the beginning of a character.
[[nodiscard]] inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<std::uint8_t>(text[at + i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {((lead & 0x1FU) << 6U) | (byte(1) & 0x3FU), 2};
  if (lead < 0xF0) return {((lead & 0x0FU) << 12U) | ((byte(1) & 0x3FU) << 6U) | (byte(2) & 0x3FU), 3};
  return {((lead & 0x07U) << 18U) | ((byte(1) & 0x3FU) << 12U) | ((byte(2) & 0x3FU) << 6U) | (byte(3) & 0x3FU), 4};
}

/// The beginning of the character that ends at `end`. Requires: valid UTF-8 and end > 0.
[[nodiscard]] inline std::size_t character_before(std::string_view text, std::size_t end) {
  std::size_t begin = end - 1;
  while ((static_cast<std::uint8_t>(text[begin]) & 0xC0U) == 0x80U) --begin;
  return begin;
}

/// Appends a code point. Requires: it is below U+110000 and not a surrogate.
inline void append_code_point(std::uint32_t value, std::string& out) {
  const auto push = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (value < 0x80) return push(value);
  if (value < 0x800) {
    push(0xC0U | (value >> 6U));
  } else if (value < 0x10000) {
    push(0xE0U | (value >> 12U));
    push(0x80U | ((value >> 6U) & 0x3FU));
  } else {
    push(0xF0U | (value >> 18U));
    push(0x80U | ((value >> 12U) & 0x3FU));
    push(0x80U | ((value >> 6U) & 0x3FU));
  }
  push(0x80U | (value & 0x3FU));
}

/// White_Space of Unicode (PropList.txt), the definition of white space in both Rust and Oniguruma.
[[nodiscard]] constexpr bool is_white_space(std::uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace kvist::tokenizer

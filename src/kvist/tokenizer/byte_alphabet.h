// The printable characters with which byte-level vocabularies write bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvist::tokenizer {

/// The character for a byte in byte-level vocabularies (GPT-2's bytes_to_unicode): printable Latin-1 characters stand
/// for themselves, the 68 others for U+0100 onwards in the order of their bytes.
[[nodiscard]] std::uint32_t character_of_byte(std::uint8_t byte);

/// The bytes that a token of a byte-level vocabulary stands for; nothing if it has a character outside of the alphabet.
[[nodiscard]] std::optional<std::string> bytes_of_token(std::string_view token);
/// The spelling of some bytes in a byte-level vocabulary.
[[nodiscard]] std::string token_of_bytes(std::string_view bytes);

}  // namespace kvist::tokenizer

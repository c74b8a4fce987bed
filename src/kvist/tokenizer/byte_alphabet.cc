#include "kvist/tokenizer/byte_alphabet.h"

#include <array>

#include "kvist/tokenizer/unicode.h"

namespace kvist::tokenizer {
namespace {

constexpr std::uint32_t kFirstStandIn = 0x100;
constexpr std::uint32_t kStandIns = 68;

constexpr bool stands_for_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<std::uint32_t, 256> character{};
  std::array<std::uint8_t, kStandIns> byte{};  // of the stand-ins
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  std::uint32_t stand_in = 0;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    if (stands_for_itself(byte)) {
      alphabet.character[byte] = byte;
    } else {
      alphabet.byte[stand_in] = static_cast<std::uint8_t>(byte);
      alphabet.character[byte] = kFirstStandIn + stand_in++;
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();
static_assert(kAlphabet.character[' '] == 0x120 && kAlphabet.character['\n'] == 0x10A && kAlphabet.byte[67] == 0xAD);

}  // namespace

std::uint32_t character_of_byte(std::uint8_t byte) {
  return kAlphabet.character[byte];
}

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint c = code_point_at(token, at);
    at += c.bytes;
    if (c.value < 256 && stands_for_itself(c.value)) {
      bytes.push_back(static_cast<char>(c.value));
    } else if (c.value >= kFirstStandIn && c.value < kFirstStandIn + kStandIns) {
      bytes.push_back(static_cast<char>(kAlphabet.byte[c.value - kFirstStandIn]));
    } else {
      return std::nullopt;
    }
  }
  return bytes;
}

std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char byte : bytes) append_code_point(character_of_byte(static_cast<std::uint8_t>(byte)), token);
  return token;
}

}  // namespace kvist::tokenizer

#include "kvist/tokenizer/tokenizer.h"

#include <array>
#include <utility>

namespace kvist::tokenizer {
namespace {

constexpr std::uint32_t kSpecialTokens = 4;
static_assert(std::to_underlying(SpecialToken::kEndHeader) + 1 == kSpecialTokens);
constexpr TokenId kEndTokens[] = {TokenId(256 + std::to_underlying(SpecialToken::kEndOfTurn))};

constexpr std::array<char, 256> make_bytes() {
  std::array<char, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}
constexpr std::array<char, 256> kAllBytes = make_bytes();

}  // namespace

void ByteTokenizer::encode(std::string_view text, std::vector<TokenId>& out) const {
  // Compilers make vector instructions of loops of fixed length.
  constexpr std::size_t kAtOnce = 32;
  const std::size_t begin = out.size();
  out.resize(begin + text.size());
  const char* const from = text.data();
  TokenId* const to = out.data() + begin;
  std::size_t i = 0;
  for (; i + kAtOnce <= text.size(); i += kAtOnce) {
    for (std::size_t k = 0; k < kAtOnce; ++k) to[i + k] = TokenId(static_cast<unsigned char>(from[i + k]));
  }
  for (; i < text.size(); ++i) to[i] = TokenId(static_cast<unsigned char>(from[i]));
}

TokenId ByteTokenizer::special(SpecialToken token) const {
  return TokenId(kByteTokens + std::to_underlying(token));
}

std::span<const TokenId> ByteTokenizer::end_tokens() const {
  return kEndTokens;
}

std::optional<TokenId> ByteTokenizer::token_id(std::string_view spelling) const {
  if (spelling.size() != 1) return std::nullopt;
  return TokenId(static_cast<unsigned char>(spelling.front()));
}

std::string_view ByteTokenizer::spelling(TokenId token) const {
  if (token.value() >= kByteTokens) return {};
  return {&kAllBytes[token.value()], 1};
}

bool ByteTokenizer::is_special(TokenId token) const {
  return token.value() >= kByteTokens && token.value() < kByteTokens + kSpecialTokens;
}

std::uint32_t ByteTokenizer::vocabulary_size() const {
  return kByteTokens + kSpecialTokens;
}

}  // namespace kvist::tokenizer

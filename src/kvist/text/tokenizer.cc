#include "kvist/text/tokenizer.h"

#include <utility>

namespace kvist::text {
namespace {

constexpr std::uint32_t kSpecialTokens = 4;
static_assert(std::to_underlying(SpecialToken::kEndHeader) + 1 == kSpecialTokens);

}  // namespace

void ByteTokenizer::encode(std::string_view text, std::vector<TokenId>& out) const {
  const std::size_t begin = out.size();
  out.resize(begin + text.size());
  for (std::size_t i = 0; i < text.size(); ++i) out[begin + i] = TokenId(static_cast<unsigned char>(text[i]));
}

TokenId ByteTokenizer::special(SpecialToken token) const {
  return TokenId(kByteTokens + std::to_underlying(token));
}

bool ByteTokenizer::is_special(TokenId token) const {
  return token.value() >= kByteTokens && token.value() < kByteTokens + kSpecialTokens;
}

std::uint32_t ByteTokenizer::vocabulary_size() const {
  return kByteTokens + kSpecialTokens;
}

}  // namespace kvist::text

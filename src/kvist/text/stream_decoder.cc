#include "kvist/text/stream_decoder.h"

#include <algorithm>
#include <string_view>

#include "kvist/base/utf8.h"
#include "kvist/tokenizer/utf8_repair.h"

namespace kvist::text {
namespace {

constexpr std::size_t kLongestCharacter = 4;

// Whether the text of these bytes ends with U+FFFD, because its last character is unfinished, invalid, or U+FFFD
// itself. The beginning of a character is recognised by its byte alone, so it is enough to look at the last few bytes.
bool ends_with_replacement(std::string_view bytes) {
  for (std::size_t length = 1; length <= std::min(kLongestCharacter, bytes.size()); ++length) {
    const std::string_view last = bytes.substr(bytes.size() - length);
    if (utf8_sequence_length(last) == length) return last == tokenizer::kReplacementCharacter;
  }
  return true;
}

}  // namespace

std::string StreamDecoder::push(TokenId token) {
  const std::size_t before = pending_.size();
  if (begun_) {
    tokenizer_->decode(token, pending_);
  } else {
    begun_ = tokenizer_->decode_first(token, pending_);
  }
  if (pending_.size() == before || ends_with_replacement(pending_)) return {};
  return finish();
}

std::string StreamDecoder::finish() {
  std::string text;
  tokenizer::append_repaired_utf8(pending_, text);
  pending_.clear();
  return text;
}

std::string decode_text(const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> tokens) {
  std::string bytes;
  std::size_t at = 0;
  while (at < tokens.size() && !tokenizer.decode_first(tokens[at], bytes)) ++at;
  for (++at; at < tokens.size(); ++at) tokenizer.decode(tokens[at], bytes);
  std::string text;
  text.reserve(bytes.size());
  tokenizer::append_repaired_utf8(bytes, text);
  return text;
}

}  // namespace kvist::text

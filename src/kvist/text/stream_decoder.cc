#include "kvist/text/stream_decoder.h"

#include <string_view>

#include "kvist/base/utf8.h"

namespace kvist::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes at the beginning of `text` that one U+FFFD stands for: the longest beginning of some character ("maximal
// subpart", Unicode 15 section 3.9), at least one byte. Requires that `text` begins with no whole character.
std::size_t broken_prefix(std::string_view text) {
  for (std::size_t length = 3; length > 1; --length) {
    if (text.size() >= length && utf8_incomplete_tail(text.substr(0, length)) == length) return length;
  }
  return 1;
}

}  // namespace

std::string StreamDecoder::push(TokenId token) {
  tokenizer_->decode(token, pending_);
  const std::string_view all = pending_;
  const std::size_t complete = all.size() - utf8_incomplete_tail(all);
  std::string text;
  std::size_t at = 0;
  while (at < complete) {
    const std::string_view rest = all.substr(at, complete - at);
    const std::size_t length = utf8_sequence_length(rest);
    if (length > 0) {
      text.append(rest.substr(0, length));
      at += length;
    } else {
      text.append(kReplacement);
      at += broken_prefix(rest);
    }
  }
  pending_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace kvist::text

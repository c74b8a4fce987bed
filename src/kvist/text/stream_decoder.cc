#include "kvist/text/stream_decoder.h"

#include <string_view>

#include "kvist/base/utf8.h"
#include "kvist/text/utf8_repair.h"

namespace kvist::text {

std::string StreamDecoder::push(TokenId token) {
  if (begun_) {
    tokenizer_->decode(token, pending_);
  } else {
    begun_ = tokenizer_->decode_first(token, pending_);
  }
  const std::string_view all = pending_;
  const std::size_t complete = all.size() - utf8_incomplete_tail(all);
  std::string text;
  append_repaired_utf8(all.substr(0, complete), text);
  pending_.erase(0, complete);
  return text;
}

std::string StreamDecoder::finish() {
  if (pending_.empty()) return {};
  pending_.clear();
  return std::string(kReplacementCharacter);
}

std::string decode_text(const Tokenizer& tokenizer, std::span<const TokenId> tokens) {
  std::string bytes;
  std::size_t at = 0;
  while (at < tokens.size() && !tokenizer.decode_first(tokens[at], bytes)) ++at;
  for (++at; at < tokens.size(); ++at) tokenizer.decode(tokens[at], bytes);
  std::string text;
  text.reserve(bytes.size());
  append_repaired_utf8(bytes, text);
  return text;
}

}  // namespace kvist::text

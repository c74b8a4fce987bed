// Tokens to text while they stream, without ever splitting a character.
#pragma once

#include <span>
#include <string>

#include "kvist/base/id.h"
#include "kvist/text/tokenizer.h"

namespace kvist::text {

/// Decodes one answer token by token. Owned by one request; not thread-safe. Holds back the bytes of an unfinished
/// UTF-8 character; bytes that can never become valid are replaced by U+FFFD. All it gives, one after another, is the
/// text of the whole.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// The text that this token completes; may be empty.
  [[nodiscard]] std::string push(TokenId token);
  /// What is left at the end: U+FFFD for an unfinished character, else nothing.
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool begun_ = false;   // a token with text has come
  std::string pending_;  // an unfinished character
};

/// The text of some tokens from their beginning, without special tokens.
[[nodiscard]] std::string decode_text(const Tokenizer& tokenizer, std::span<const TokenId> tokens);

}  // namespace kvist::text

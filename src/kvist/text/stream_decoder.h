// Tokens to text while they stream, without ever splitting a character.
#pragma once

#include <string>

#include "kvist/base/id.h"
#include "kvist/text/tokenizer.h"

namespace kvist::text {

/// Decodes one answer token by token. Owned by one request; not thread-safe. Holds back the bytes of an unfinished
/// UTF-8 character; bytes that can never become valid are replaced by U+FFFD.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// The text that this token completes; may be empty.
  [[nodiscard]] std::string push(TokenId token);
  /// What is left at the end: U+FFFD for an unfinished character, else nothing.
  [[nodiscard]] std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
};

}  // namespace kvist::text

// Converts streamed tokens to text, without splitting a character.
#pragma once

#include <span>
#include <string>

#include "kvist/base/id.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::text {

/// Decodes one answer token by token. Owned by one request. Threads: one at a time. Bytes that are not valid UTF-8 are
/// replaced by U+FFFD. Tokens whose text ends with U+FFFD, usually an unfinished character, are held back until one
/// comes whose text does not, as in vLLM's detokenizer. An answer that ends before that does not contain them, streamed
/// or not.
class StreamDecoder {
 public:
  /// `follows_text`: the tokens go on with a text before them, so the first one keeps the leading space that some
  /// tokenizers remove from the beginning of a text.
  explicit StreamDecoder(const tokenizer::Tokenizer& tokenizer, bool follows_text = false)
      : tokenizer_(&tokenizer), begun_(follows_text) {}

  /// Returns the text that this token completes; it may be empty.
  [[nodiscard]] std::string push(TokenId token);
  /// Returns the text that is held back. Together with it, the results of push() are the text of all tokens.
  [[nodiscard]] std::string finish();

 private:
  const tokenizer::Tokenizer* tokenizer_;
  bool begun_;           // there was a token with text
  std::string pending_;  // bytes of the tokens held back
};

/// The text of tokens, without special tokens.
[[nodiscard]] std::string decode_text(const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> tokens);

}  // namespace kvist::text

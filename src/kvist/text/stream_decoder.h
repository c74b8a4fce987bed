// Tokens to text while they stream, without ever splitting a character.
#pragma once

#include <span>
#include <string>

#include "kvist/base/id.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::text {

/// Decodes one answer token by token. Owned by one request; not thread-safe. Bytes that make no UTF-8 are replaced by
/// U+FFFD. Tokens whose text ends with U+FFFD, an unfinished character as a rule, are held back until one comes whose
/// text does not, as in vLLM's detokenizer: an answer that ends before that is without them, streamed or whole.
class StreamDecoder {
 public:
  explicit StreamDecoder(const tokenizer::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  /// The text that this token completes; may be empty.
  [[nodiscard]] std::string push(TokenId token);
  /// What is held back, for whom the tokens so far are all that there will be: with it, all it gives, one after
  /// another, is the text of the whole.
  [[nodiscard]] std::string finish();

 private:
  const tokenizer::Tokenizer* tokenizer_;
  bool begun_ = false;   // a token with text has come
  std::string pending_;  // of the tokens held back
};

/// The text of some tokens from their beginning, without special tokens.
[[nodiscard]] std::string decode_text(const tokenizer::Tokenizer& tokenizer, std::span<const TokenId> tokens);

}  // namespace kvist::text

// Text to tokens and back.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/text/token.h"

namespace kvist::text {

/// A tokenizer. Immutable after construction; any thread may use it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the tokens of plain text. Never produces a special token, whatever the text holds.
  virtual void encode(std::string_view text, std::vector<TokenId>& out) const = 0;
  [[nodiscard]] virtual TokenId special(SpecialToken token) const = 0;
  [[nodiscard]] virtual bool is_special(TokenId token) const = 0;
  /// Appends the bytes of one token; nothing for special tokens and for ids outside the vocabulary. The bytes of one
  /// token may be a part of a UTF-8 character: StreamDecoder puts them together.
  virtual void decode(TokenId token, std::string& out) const = 0;
  [[nodiscard]] virtual std::uint32_t vocabulary_size() const = 0;
};

/// One token per byte (ids 0 to 255), special tokens from 256 on. What the timed engine serves: a text's length in
/// tokens is its length in bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<TokenId>& out) const override;
  [[nodiscard]] TokenId special(SpecialToken token) const override;
  [[nodiscard]] bool is_special(TokenId token) const override;
  void decode(TokenId token, std::string& out) const override {
    if (token.value() < kByteTokens) out.push_back(static_cast<char>(token.value()));
  }
  [[nodiscard]] std::uint32_t vocabulary_size() const override;

 private:
  static constexpr std::uint32_t kByteTokens = 256;
};

}  // namespace kvist::text

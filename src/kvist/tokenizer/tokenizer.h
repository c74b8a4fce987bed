// Converts text to tokens and back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/tokenizer/rendered_prompt.h"

namespace kvist::tokenizer {

/// Roles of special tokens in a chat prompt. Text never encodes to one of them: only the template places them.
enum class SpecialToken : std::uint8_t {
  kBeginOfText,
  kEndOfTurn,    ///< closes a message; the model ends its answer with it
  kBeginHeader,  ///< before a role name
  kEndHeader,    ///< after a role name
};

/// A tokenizer. Immutable after construction; any thread may use it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the tokens of plain text. Never produces a special token, whatever the text contains. If the vocabulary
  /// consists of characters, bytes that are not valid UTF-8 count as U+FFFD.
  virtual void encode(std::string_view text, std::vector<TokenId>& out) const = 0;
  /// Appends the tokens of a prompt. Special tokens and words added to the vocabulary are recognised only if they touch
  /// no byte that came with the messages. In all other respects the prompt is one text.
  virtual void encode_prompt(const RenderedPrompt& prompt, std::vector<TokenId>& out) const = 0;
  /// Appends places, in ascending order, where a prompt can be cut in two so that the tokens of the parts together are
  /// those of the whole. Not all such places are found.
  virtual void cut_places(const RenderedPrompt& prompt, std::vector<std::size_t>& out) const = 0;
  /// Whether the prompt's tokens may depend on which bytes came with the messages, because a special token's text
  /// occurs in them. The result may be true unnecessarily, but never false wrongly.
  [[nodiscard]] virtual bool marks_matter(const RenderedPrompt& prompt) const = 0;
  /// The tokens around a text that no template wrote, usually a begin-of-text token.
  struct Frame {
    std::span<const TokenId> before = {};
    std::span<const TokenId> behind = {};
  };
  [[nodiscard]] virtual Frame completion_frame() const = 0;
  /// Like encode_prompt(), but within completion_frame(), for prompts that no template wrote.
  void encode_completion(const RenderedPrompt& prompt, std::vector<TokenId>& out) const {
    const Frame frame = completion_frame();
    out.insert(out.end(), frame.before.begin(), frame.before.end());
    encode_prompt(prompt, out);
    out.insert(out.end(), frame.behind.begin(), frame.behind.end());
  }

  /// The token with a role. Requires: the tokenizer has one. The byte tokenizer has all roles; a tokenizer from a file
  /// has kEndOfTurn if end tokens were given.
  [[nodiscard]] virtual TokenId special(SpecialToken token) const = 0;
  /// The tokens that end an answer, the usual one first; none if unknown.
  [[nodiscard]] virtual std::span<const TokenId> end_tokens() const = 0;
  [[nodiscard]] virtual bool is_special(TokenId token) const = 0;

  /// Appends the bytes of one token within a text; nothing for special tokens and for ids outside of the vocabulary.
  /// The bytes of one token may be a part of a UTF-8 character; StreamDecoder puts these together.
  virtual void decode(TokenId token, std::string& out) const = 0;
  /// Like decode(), but for the first token of a text, from which some tokenizers remove the leading space. Returns
  /// false if the token has no text, so that the next one is the first.
  virtual bool decode_first(TokenId token, std::string& out) const = 0;

  /// The id of a token by its spelling in the vocabulary, special tokens included.
  [[nodiscard]] virtual std::optional<TokenId> token_id(std::string_view spelling) const = 0;
  /// The spelling of a token in the vocabulary; empty for ids that have none.
  [[nodiscard]] virtual std::string_view spelling(TokenId token) const = 0;
  /// One more than the largest id.
  [[nodiscard]] virtual std::uint32_t vocabulary_size() const = 0;
};

/// One token per byte (ids 0 to 255), special tokens from 256 on. The timed engine uses it, so a text has as many
/// tokens as bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<TokenId>& out) const override;
  /// Its special tokens have no spelling, so none are recognised in text; templates place them as tokens.
  void encode_prompt(const RenderedPrompt& prompt, std::vector<TokenId>& out) const override {
    encode(prompt.text, out);
  }
  void cut_places(const RenderedPrompt& /*prompt*/, std::vector<std::size_t>& /*out*/) const override {}
  [[nodiscard]] bool marks_matter(const RenderedPrompt& /*prompt*/) const override { return false; }
  [[nodiscard]] Frame completion_frame() const override { return {}; }
  [[nodiscard]] TokenId special(SpecialToken token) const override;
  [[nodiscard]] std::span<const TokenId> end_tokens() const override;
  [[nodiscard]] bool is_special(TokenId token) const override;
  void decode(TokenId token, std::string& out) const override {
    if (token.value() < kByteTokens) out.push_back(static_cast<char>(token.value()));
  }
  bool decode_first(TokenId token, std::string& out) const override {
    decode(token, out);
    return token.value() < kByteTokens;
  }
  /// The spelling of a byte is the byte itself.
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view spelling) const override;
  [[nodiscard]] std::string_view spelling(TokenId token) const override;
  [[nodiscard]] std::uint32_t vocabulary_size() const override;

 private:
  static constexpr std::uint32_t kByteTokens = 256;
};

}  // namespace kvist::tokenizer

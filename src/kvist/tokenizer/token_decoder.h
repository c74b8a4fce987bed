// Converts the spelling of tokens to text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvist/base/error.h"

namespace kvist {
class JsonObject;
class JsonValue;
}  // namespace kvist

namespace kvist::tokenizer {

/// The decoder of a tokenizer.json: the bytes that one token adds to a text. If tokens of single bytes are not valid
/// UTF-8, U+FFFD replaces only the broken part. This differs from Hugging Face's Rust library, which replaces each byte
/// of the whole run of such tokens, so that a stream would have to wait for the run's end. Immutable.
class TokenDecoder {
 public:
  /// Without a decoder, tokens are words with a space between them.
  TokenDecoder() = default;
  /// Reads the "decoder" member.
  [[nodiscard]] static Result<TokenDecoder> read(const JsonValue& value);

  /// The bytes of a token with this spelling. `first`: no token with text came before it.
  [[nodiscard]] std::string bytes(std::string_view token, bool first) const;

 private:
  struct Replace {
    std::string from;
    std::string to;
  };
  /// Removes `content` up to `left` and `right` times from the ends; after Fuse, from the beginning of the whole text.
  struct Strip {
    std::string content;
    std::uint32_t left = 0;
    std::uint32_t right = 0;
    bool whole_text = false;
  };
  struct Metaspace {
    std::string replacement;
    bool drops_first = false;
  };
  struct ByteFallback {};
  struct ByteLevel {};
  using Step = std::variant<Replace, Strip, Metaspace, ByteFallback, ByteLevel>;

  [[nodiscard]] Result<void> read_step(std::string_view type, JsonObject& step, const JsonValue& at);
  [[nodiscard]] Result<void> read_strip(JsonObject& step, const JsonValue& at);
  static void apply(const Step& step, bool first, std::string& text);

  std::vector<Step> steps_;
  bool joins_with_spaces_ = true;
  bool fused_ = false;  // while reading: the following steps see one text
};

}  // namespace kvist::tokenizer

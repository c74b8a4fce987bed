// Finds where a JSON value that arrives piece by piece ends, or stops being JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvist::tool_calls {

/// What may stand between JSON's tokens (RFC 8259, section 2).
[[nodiscard]] constexpr bool is_json_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/// Reads one JSON object or array (RFC 8259) byte by byte. Constant work per byte; at most kMostDepth containers deep.
/// Bytes beyond ASCII in strings are not checked. Requires: the input is valid UTF-8.
class JsonScanner {
 public:
  static constexpr std::size_t kMostDepth = 64;

  enum class State : std::uint8_t {
    kGoesOn,
    kComplete,  ///< the last byte completed the value
    kBroken,    ///< the last byte is not valid JSON, or exceeds the depth
  };

  /// Requires: no byte before completed or broke the value; the first one opens an object or an array.
  [[nodiscard]] State push(char byte);

 private:
  // What may come next.
  enum class Next : std::uint8_t {
    kBegin,
    kValue,
    kValueOrEnd,  // behind "["
    kKey,
    kKeyOrEnd,  // behind "{"
    kColon,
    kCommaOrEnd,
    kText,
    kEscaped,
    kHex,
    kWord,          // the rest of true, false, null
    kFirstDigit,    // behind "-"
    kZero,          // behind a leading 0
    kDigits,        // of the integer part
    kFirstDecimal,  // behind "."
    kDecimals,
    kExponentSign,  // behind "e"
    kFirstExponent,
    kExponent,
  };

  [[nodiscard]] State value(char byte);
  [[nodiscard]] State open(char byte);
  [[nodiscard]] State close(char byte);
  [[nodiscard]] State text(char byte);
  [[nodiscard]] State number(char byte);
  [[nodiscard]] State go(Next next) {
    next_ = next;
    return State::kGoesOn;
  }

  Next next_ = Next::kBegin;
  std::vector<char> open_;  // '{' or '[' per level
  bool in_key_ = false;     // of a text
  std::uint8_t hex_left_ = 0;
  const char* word_ = "";  // what of true, false, null is to come
};

}  // namespace kvist::tool_calls

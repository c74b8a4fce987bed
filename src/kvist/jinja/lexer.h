// Template text to tokens, with Jinja's white-space control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::jinja {

/// A place in a template's source, from 1 on; columns count characters.
struct Position {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

/// kInvalidArgument: "line 3, column 14: what".
[[nodiscard]] std::unexpected<Error> fail_at(Position at, std::string_view what);

enum class TokenKind : std::uint8_t {
  kText,        ///< between tags; what white-space control left of it
  kBlockBegin,  ///< {%
  kBlockEnd,
  kExpressionBegin,  ///< {{
  kExpressionEnd,
  kName,
  kString,  ///< its value, escapes resolved
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  Position at;
};

/// The tokens of a template, ending with kEnd, under the settings of the transformers library: trim_blocks (the line
/// end after a block tag or comment is dropped), lstrip_blocks (white space between a line's begin and such a tag is
/// dropped), one line end at the source's end is dropped, every line end is a line feed. kInvalidArgument for what is
/// no token, an unclosed tag or string, or broken UTF-8.
[[nodiscard]] Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace kvist::jinja

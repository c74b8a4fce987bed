// Splits a template into tokens, with Jinja's white-space control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::jinja {

/// A position in a template's source, counted from 1; columns count characters.
struct Position {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

/// kInvalidArgument: "line 3, column 14: what".
[[nodiscard]] std::unexpected<Error> fail_at(Position at, std::string_view what);

enum class TokenKind : std::uint8_t {
  kText,        ///< text between tags, after white-space control
  kBlockBegin,  ///< {%
  kBlockEnd,
  kExpressionBegin,  ///< {{
  kExpressionEnd,
  kName,
  kString,  ///< its text is the value, with escapes resolved
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

/// The tokens of a template, with kEnd at the end. The settings are those of the transformers library: trim_blocks (the
/// line end after a block tag or comment is dropped), lstrip_blocks (white space between the beginning of a line and
/// such a tag is dropped); one line end at the end of the source is dropped, and every line end becomes a line feed.
/// Errors: kInvalidArgument for an invalid token, an unclosed tag or string, or broken UTF-8.
[[nodiscard]] Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace kvist::jinja

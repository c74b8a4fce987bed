#include "kvist/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "kvist/jinja/code_points.h"

namespace kvist::jinja {
namespace {

constexpr auto kOperators = std::to_array<std::string_view>(
    {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[",
     "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","});  // longer ones before their prefixes

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

constexpr bool is_name_begin(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::string with_line_feeds(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

std::string quoted(std::string_view text) {
  return fmt::format("\"{}\"", text);
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_line_feeds(source)) {}

  Result<std::vector<Token>> run() {
    while (next_ < source_.size()) {
      KVIST_TRY(const std::optional<char> tag, read_text());
      if (!tag) break;
      if (*tag == '#') {
        KVIST_TRY_VOID(skip_comment());
      } else {
        KVIST_TRY_VOID(read_tag(*tag == '%'));
      }
    }
    push(TokenKind::kEnd, "", source_.size());
    return std::move(tokens_);
  }

 private:
  // Reads the text up to the next tag and the tag's opening. Returns its kind: '%', '{' or '#'; nothing at the end.
  Result<std::optional<char>> read_text() {
    const std::size_t begin = next_;
    std::size_t tag = begin;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        next_ = source_.size();
        push_text(begin, source_.size());
        return std::optional<char>();
      }
      const char kind = source_[tag + 1];
      if (kind == '%' || kind == '{' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    tag_begin_ = tag;
    next_ = tag + 2;
    const char sign = next_ < source_.size() ? source_[next_] : '\0';
    if (sign == '-' || sign == '+') ++next_;
    push_text(begin, text_end(begin, tag, kind, sign));
    return std::optional(kind);
  }

  // The end of the text [begin, tag) after white-space control.
  [[nodiscard]] std::size_t text_end(std::size_t begin, std::size_t tag, char kind, char sign) const {
    const std::string_view text = std::string_view(source_).substr(begin, tag - begin);
    if (sign == '-') return begin + size_without_trailing_space(text);
    if (sign == '+' || kind == '{') return tag;
    const std::size_t line_feed = text.rfind('\n');
    const bool at_line_begin = begin == 0 || source_[begin - 1] == '\n';
    if (line_feed == std::string_view::npos && !at_line_begin) return tag;
    const std::size_t line = line_feed == std::string_view::npos ? 0 : line_feed + 1;
    return leading_space(text.substr(line)) == text.size() - line ? begin + line : tag;
  }

  Result<void> skip_comment() {
    const std::size_t end = source_.find("#}", next_);
    if (end == std::string::npos) return fail_at(position_at(tag_begin_), "the comment is never closed with #}");
    const char sign = end > next_ ? source_[end - 1] : '\0';
    next_ = end + 2;
    skip_after_tag(sign);
    return {};
  }

  void skip_after_tag(char sign) {
    if (sign == '-') {
      next_ += leading_space(std::string_view(source_).substr(next_));
    } else if (sign != '+' && next_ < source_.size() && source_[next_] == '\n') {
      ++next_;
    }
  }

  Result<void> read_tag(bool block) {
    const std::size_t begin = tag_begin_;
    push(block ? TokenKind::kBlockBegin : TokenKind::kExpressionBegin, block ? "{%" : "{{", begin);
    brackets_.clear();
    while (true) {
      next_ += leading_space(std::string_view(source_).substr(next_));
      if (next_ >= source_.size())
        return fail_at(position_at(begin), block ? "{% is never closed with %}" : "{{ is never closed with }}");
      if (brackets_.empty() && close_tag(block)) return {};
      KVIST_TRY_VOID(read_token());
    }
  }

  bool close_tag(bool block) {
    const std::string_view rest = std::string_view(source_).substr(next_);
    const bool sign = rest.front() == '-' || (block && rest.front() == '+');
    if (!rest.substr(sign ? 1 : 0).starts_with(block ? "%}" : "}}")) return false;
    push(block ? TokenKind::kBlockEnd : TokenKind::kExpressionEnd, block ? "%}" : "}}", next_);
    const char kind = sign ? rest.front() : '\0';
    next_ += sign ? 3 : 2;
    // Only block tags drop the line end; after an expression it stays.
    if (block || kind == '-') skip_after_tag(kind);
    return true;
  }

  Result<void> read_token() {
    const char c = source_[next_];
    if (is_name_begin(c)) {
      const std::size_t begin = next_;
      while (next_ < source_.size() && (is_name_begin(source_[next_]) || is_digit(source_[next_]))) ++next_;
      push(TokenKind::kName, source_.substr(begin, next_ - begin), begin);
      return {};
    }
    if (is_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    return read_operator();
  }

  Result<void> read_operator() {
    const std::string_view rest = std::string_view(source_).substr(next_);
    const auto* found = std::ranges::find_if(kOperators, [&](std::string_view op) { return rest.starts_with(op); });
    if (found == kOperators.end()) {
      const std::size_t bytes = code_point_at(rest, 0).bytes;
      return fail_at(position_at(next_), quoted(rest.substr(0, bytes)) + " cannot stand in an expression");
    }
    const char c = found->front();
    if (c == '(' || c == '[' || c == '{') {
      brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c)
        return fail_at(position_at(next_), brackets_.empty()
                                               ? fmt::format("'{}' closes nothing", c)
                                               : fmt::format("expected '{}', got '{}'", brackets_.back(), c));
      brackets_.pop_back();
    }
    push(TokenKind::kOperator, std::string(*found), next_);
    next_ += found->size();
    return {};
  }

  void skip_digits() {
    while (next_ < source_.size() &&
           (is_digit(source_[next_]) ||
            (source_[next_] == '_' && next_ + 1 < source_.size() && is_digit(source_[next_ + 1]))))
      ++next_;
  }

  [[nodiscard]] bool digit_follows(std::size_t offset) const {
    return next_ + offset < source_.size() && is_digit(source_[next_ + offset]);
  }

  Result<void> read_number() {
    const std::size_t begin = next_;
    const bool after_dot =
        !tokens_.empty() && tokens_.back().kind == TokenKind::kOperator && tokens_.back().text == ".";
    skip_digits();
    bool integer = true;
    if (!after_dot && next_ < source_.size() && source_[next_] == '.' && digit_follows(1)) {
      integer = false;
      ++next_;
      skip_digits();
    }
    if (!after_dot && next_ < source_.size() && (source_[next_] == 'e' || source_[next_] == 'E')) {
      const bool sign = next_ + 1 < source_.size() && (source_[next_ + 1] == '+' || source_[next_ + 1] == '-');
      if (digit_follows(sign ? 2 : 1)) {
        integer = false;
        next_ += sign ? 2 : 1;
        skip_digits();
      }
    }
    if (next_ < source_.size() && is_name_begin(source_[next_]))
      return fail_at(position_at(begin), "a number ends in letters; only decimal numbers are known");
    std::string digits = source_.substr(begin, next_ - begin);
    std::erase(digits, '_');
    push(integer ? TokenKind::kInteger : TokenKind::kFloat, std::move(digits), begin);
    return {};
  }

  Result<void> read_string(char quote) {
    const std::size_t begin = next_++;
    std::string value;
    while (next_ < source_.size() && source_[next_] != quote) {
      if (source_[next_] == '\\') {
        KVIST_TRY_VOID(read_escape(value));
      } else {
        value.push_back(source_[next_++]);
      }
    }
    if (next_ >= source_.size()) return fail_at(position_at(begin), "the string is never closed");
    ++next_;
    push(TokenKind::kString, std::move(value), begin);
    return {};
  }

  // Python's escapes. An unknown one is kept unchanged.
  Result<void> read_escape(std::string& value) {
    const std::size_t begin = next_;
    const char kind = begin + 1 < source_.size() ? source_[begin + 1] : '\0';
    constexpr std::string_view kShort = "nrtbfva\\'\"\n";
    constexpr std::string_view kMeaning("\n\r\t\b\f\v\a\\'\"", 10);
    next_ += 2;
    if (const std::size_t index = kShort.find(kind); kind != '\0' && index != std::string_view::npos) {
      if (index < kMeaning.size())
        value.push_back(kMeaning[index]);  // otherwise it is a line end after a backslash, which is dropped
      return {};
    }
    const std::size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digits == 0) {
      next_ = begin + 1;
      value.push_back('\\');
      return {};
    }
    char32_t code_point = 0;
    for (std::size_t i = 0; i < digits; ++i, ++next_) {
      const char c = next_ < source_.size() ? source_[next_] : '\0';
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0)
        return fail_at(position_at(begin), fmt::format("\\{} needs {} hexadecimal digits after it", kind, digits));
      code_point = code_point * 16 + static_cast<char32_t>(digit);
    }
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF))
      return fail_at(position_at(begin), "the escape names no character");
    append_utf8(value, code_point);
    return {};
  }

  void push_text(std::size_t begin, std::size_t end) {
    if (begin < end) push(TokenKind::kText, source_.substr(begin, end - begin), begin);
  }

  void push(TokenKind kind, std::string text, std::size_t at) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .at = position_at(at)});
  }

  // Positions are needed almost in ascending order, so counting continues from the last one.
  Position position_at(std::size_t offset) {
    if (offset < counted_) {
      counted_ = 0;
      counted_position_ = {};
    }
    for (; counted_ < offset; ++counted_) {
      const auto byte = static_cast<unsigned char>(source_[counted_]);
      if (byte == '\n') {
        ++counted_position_.line;
        counted_position_.column = 1;
      } else if ((byte & 0xC0U) != 0x80U) {
        ++counted_position_.column;
      }
    }
    return counted_position_;
  }

  std::string source_;
  std::size_t next_ = 0;
  std::size_t tag_begin_ = 0;
  std::string brackets_;  // the closing brackets for the open ones in this tag
  std::vector<Token> tokens_;
  std::size_t counted_ = 0;
  Position counted_position_;
};

}  // namespace

std::unexpected<Error> fail_at(Position at, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, fmt::format("line {}, column {}: {}", at.line, at.column, what));
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (!is_valid_utf8(source)) return fail(ErrorCode::kInvalidArgument, "the template is not valid UTF-8");
  return Lexer(source).run();
}

}  // namespace kvist::jinja

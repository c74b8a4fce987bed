#include "kvist/tool_calls/json_scanner.h"

#include <string_view>

namespace kvist::tool_calls {
namespace {

constexpr std::uint8_t kHexDigits = 4;  // behind \u

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}
bool is_hex(char byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

}  // namespace

JsonScanner::State JsonScanner::open(char byte) {
  if (open_.size() == kMostDepth) return State::kBroken;
  open_.push_back(byte);
  return go(byte == '{' ? Next::kKeyOrEnd : Next::kValueOrEnd);
}

JsonScanner::State JsonScanner::close(char byte) {
  if (open_.back() != (byte == '}' ? '{' : '[')) return State::kBroken;
  open_.pop_back();
  if (open_.empty()) return State::kComplete;
  return go(Next::kCommaOrEnd);
}

JsonScanner::State JsonScanner::value(char byte) {
  switch (byte) {
    case '{':
    case '[':
      return open(byte);
    case '"':
      in_key_ = false;
      return go(Next::kText);
    case 't':
      word_ = "rue";
      return go(Next::kWord);
    case 'f':
      word_ = "alse";
      return go(Next::kWord);
    case 'n':
      word_ = "ull";
      return go(Next::kWord);
    case '-':
      return go(Next::kFirstDigit);
    case '0':
      return go(Next::kZero);
    default:
      return is_digit(byte) ? go(Next::kDigits) : State::kBroken;
  }
}

JsonScanner::State JsonScanner::text(char byte) {
  if (next_ == Next::kHex) {
    if (!is_hex(byte)) return State::kBroken;
    return --hex_left_ == 0 ? go(Next::kText) : State::kGoesOn;
  }
  if (next_ == Next::kEscaped) {
    hex_left_ = kHexDigits;
    if (byte == 'u') return go(Next::kHex);
    return std::string_view("\"\\/bfnrt").contains(byte) ? go(Next::kText) : State::kBroken;
  }
  if (byte == '\\') return go(Next::kEscaped);
  if (byte == '"') return go(in_key_ ? Next::kColon : Next::kCommaOrEnd);
  return static_cast<unsigned char>(byte) < ' ' ? State::kBroken : State::kGoesOn;
}

// A number has no end mark. It ends with the next byte, which is something that may follow a value.
JsonScanner::State JsonScanner::number(char byte) {
  const bool digit = is_digit(byte);
  switch (next_) {
    case Next::kFirstDigit:
      if (byte == '0') return go(Next::kZero);
      return digit ? go(Next::kDigits) : State::kBroken;
    case Next::kFirstDecimal:
      return digit ? go(Next::kDecimals) : State::kBroken;
    case Next::kExponentSign:
      if (byte == '+' || byte == '-') return go(Next::kFirstExponent);
      [[fallthrough]];
    case Next::kFirstExponent:
      return digit ? go(Next::kExponent) : State::kBroken;
    default:
      break;
  }
  if (digit && next_ != Next::kZero) return State::kGoesOn;
  const bool in_integer = next_ == Next::kZero || next_ == Next::kDigits;
  if (byte == '.' && in_integer) return go(Next::kFirstDecimal);
  if ((byte == 'e' || byte == 'E') && next_ != Next::kExponent) return go(Next::kExponentSign);
  next_ = Next::kCommaOrEnd;
  return push(byte);
}

JsonScanner::State JsonScanner::push(char byte) {
  if (next_ == Next::kText || next_ == Next::kEscaped || next_ == Next::kHex) return text(byte);
  if (next_ == Next::kWord) {
    if (byte != *word_) return State::kBroken;
    return *++word_ == '\0' ? go(Next::kCommaOrEnd) : State::kGoesOn;
  }
  if (next_ >= Next::kFirstDigit) return number(byte);
  if (next_ == Next::kBegin) return byte == '{' || byte == '[' ? open(byte) : State::kBroken;
  if (is_json_space(byte)) return State::kGoesOn;
  switch (next_) {
    case Next::kValueOrEnd:
      return byte == ']' ? close(byte) : value(byte);
    case Next::kKeyOrEnd:
      if (byte == '}') return close(byte);
      [[fallthrough]];
    case Next::kKey:
      in_key_ = true;
      return byte == '"' ? go(Next::kText) : State::kBroken;
    case Next::kColon:
      return byte == ':' ? go(Next::kValue) : State::kBroken;
    case Next::kCommaOrEnd:
      if (byte == ',') return go(open_.back() == '{' ? Next::kKey : Next::kValue);
      return byte == '}' || byte == ']' ? close(byte) : State::kBroken;
    default:
      return value(byte);
  }
}

}  // namespace kvist::tool_calls

// Translates from Oniguruma's dialect to PCRE2's. Only escapes and constructs that are known to mean the same in both
// are copied.
#include <fmt/format.h>

#include "kvist/tokenizer/regex.h"

namespace kvist::tokenizer {
namespace {

// White_Space of Unicode; PCRE2's \s under UCP also has U+180E.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// Word characters of Unicode's UTS 18, annex C: alphabetic, marks, decimal digits, connectors. The ranges are the
// symbols that are alphabetic. PCRE2's \w has no marks and no connectors but "_", and has all kinds of numbers.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kSameEscapes = "pPdDrntfAz";
constexpr std::string_view kEscapedAsThemselves = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ";

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> translate() {
    while (at_ < pattern_.size()) KVIST_TRY_VOID(step());
    if (in_class_) return refuse("a class without \"]\"");
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::unexpected<Error> refuse(std::string_view what) const {
    return fail(ErrorCode::kUnsupported, fmt::format("regular expression, byte {}: {}", at_, what));
  }
  [[nodiscard]] bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  Result<void> step() {
    if (pattern_[at_] == '\\') return escape();
    if (in_class_) return within_class();
    if (next_is("(*") || next_is("(?C") || next_is("(?R") || next_is("(?&") || next_is("(?P>") || next_is("(?+") ||
        next_is("(?~")) {
      return refuse("no verbs, callouts, recursion or absence");
    }
    if (next_is("(?") && at_ + 2 < pattern_.size() && pattern_[at_ + 2] >= '0' && pattern_[at_ + 2] <= '9') {
      return refuse("no recursion");
    }
    if (next_is("{,")) return refuse("an interval without its lower bound");
    if (pattern_[at_] == '[') {
      in_class_ = true;
      out_ += '[';
      ++at_;
      if (next_is("^")) {
        out_ += '^';
        ++at_;
      }
      if (next_is("]")) return refuse("an empty class");
      return {};
    }
    out_ += pattern_[at_++];
    return {};
  }

  Result<void> within_class() {
    if (pattern_[at_] == '[') return refuse("a class within a class");
    if (next_is("&&")) return refuse("an intersection of classes");
    if (pattern_[at_] == ']') in_class_ = false;
    out_ += pattern_[at_++];
    return {};
  }

  Result<void> escape() {
    if (at_ + 1 >= pattern_.size()) return refuse("a single \\ at the end");
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S' || c == 'w' || c == 'W') {
      const std::string_view set = c == 's' || c == 'S' ? kWhiteSpace : kWord;
      const bool negated = c == 'S' || c == 'W';
      if (in_class_ && negated) return refuse("\\S and \\W within a class");
      out_ += in_class_ ? std::string(set) : fmt::format("[{}{}]", negated ? "^" : "", set);
      at_ += 2;
    } else if (c == 'v') {
      out_ += R"(\x{B})";
      at_ += 2;
    } else if (c == 'u' || c == 'x') {
      return code_point(c);
    } else if (kSameEscapes.contains(c) || kEscapedAsThemselves.contains(c)) {
      out_ += '\\';
      out_ += c;
      at_ += 2;
    } else {
      return refuse(fmt::format("\\{} is not supported", c));
    }
    return {};
  }

  // \uHHHH, \xHH, \x{H...}
  Result<void> code_point(char kind) {
    std::string_view digits = pattern_.substr(at_ + 2);
    const bool braces = digits.starts_with('{') && kind == 'x';
    if (braces) digits.remove_prefix(1);
    const std::size_t most = braces ? 8 : (kind == 'u' ? 4 : 2);
    std::size_t length = 0;
    while (length < std::min(most, digits.size()) && is_hex(digits[length])) ++length;
    if (length == 0 || (kind == 'u' && length != 4) || (braces && !digits.substr(length).starts_with('}'))) {
      return refuse("a code point that is none");
    }
    out_ += fmt::format("\\x{{{}}}", digits.substr(0, length));
    at_ += 2 + length + (braces ? 2 : 0);
    return {};
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

// White space at the end of a line, for which DeepSeek's tokenizers before V3 look, takes n^2 steps in a run of n that
// ends elsewhere. But what does not match from the first of a run matches from none of the others, and behind a match,
// which is the longest, nothing of its run does. So looking from the first is enough.
std::string_view without_repeated_search(std::string_view pattern) {
  return pattern == R"(\s+$)" ? std::string_view(R"((?<!\s)\s+$)") : pattern;
}

}  // namespace

Result<std::string> translate_to_pcre2(std::string_view pattern) {
  return Translator(without_repeated_search(pattern)).translate();
}

}  // namespace kvist::tokenizer

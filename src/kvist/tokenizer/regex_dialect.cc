// Translates from Oniguruma's dialect to PCRE2's. Only escapes and constructs that are known to mean the same in both
// are copied.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/tokenizer/regex.h"

namespace kvist::tokenizer {
namespace {

// White_Space of Unicode; PCRE2's \s under UCP also has U+180E.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// What Oniguruma's \w has besides kWordCharacters, but not within a class: superscript digits and fractions of Latin 1.
constexpr std::string_view kMoreWordCharacters = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";
constexpr std::string_view kSameEscapes = "dDrntfAz";
constexpr std::string_view kEscapedAsThemselves = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ";
constexpr std::array<std::string_view, 6> kSameGroups = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
constexpr std::array<std::string_view, 37> kCategories = {
    "c",  "cc", "cf", "cn", "co", "cs", "l",  "ll", "lm", "lo", "lt", "lu", "m",  "mc", "me", "mn", "n",  "nd", "nl",
    "no", "p",  "pc", "pd", "pe", "pf", "pi", "po", "ps", "s",  "sc", "sk", "sm", "so", "z",  "zl", "zp", "zs"};
constexpr std::array<std::string_view, 8> kOtherProperties = {
    "any", "alphabetic", "emoji", "extendedpictographic", "ideographic", "lowercase", "uppercase", "whitespace"};

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

/// The interval at the beginning of the text, "{2}", "{2,}" or "{2,3}"; empty if there is none.
std::string_view interval_of(std::string_view text) {
  if (!text.starts_with('{')) return {};
  std::size_t at = 1;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == 1) return {};
  if (at < text.size() && text[at] == ',')
    for (++at; at < text.size() && is_digit(text[at]);) ++at;
  return at < text.size() && text[at] == '}' ? text.substr(0, at + 1) : std::string_view();
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> translate() {
    while (at_ < pattern_.size()) KVIST_TRY_VOID(in_class_ ? within_class() : step());
    if (in_class_) return refuse("a class without \"]\"");
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::unexpected<Error> refuse(std::string_view what) const {
    return fail(ErrorCode::kUnsupported, fmt::format("regular expression, byte {}: {}", at_, what));
  }
  [[nodiscard]] bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void copy(std::size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  Result<void> step() {
    const char c = pattern_[at_];
    if (c == '(') return open_group();
    if (c == '*' || c == '+' || c == '?' || !interval_of(pattern_.substr(at_)).empty()) return repeat();
    if (next_is("{,")) return refuse("an interval without its lower bound");
    if (c == ')') {
      close_group();
    } else if (c == '|') {
      copy(1);
      begin_alternative();
    } else {
      if (!continues_character(c)) begin_atom();
      if (c == '\\') return escape();
      if (c == '[') return open_class();
      copy(1);
    }
    return {};
  }

  void begin_alternative() {
    atom_.reset();
    alternative_begins_ = true;
  }
  void begin_atom() {
    atom_ = out_.size();
    atom_is_group_ = false;
    alternative_begins_ = false;
  }

  Result<void> open_group() {
    if (next_is("(*")) return refuse("no verbs");
    if (next_is("(?")) {
      for (const std::string_view opening : kSameGroups)
        if (next_is(opening)) return open_group(opening);
      if (next_is("(?<")) {
        // Nothing can refer to the name.
        const std::size_t end = pattern_.find('>', at_);
        if (end == std::string_view::npos) return refuse("a name without \">\"");
        return open_group("(?:", end + 1);
      }
      return options();
    }
    return open_group("(");
  }
  Result<void> open_group(std::string_view opening) { return open_group(opening, at_ + opening.size()); }
  Result<void> open_group(std::string_view opening, std::size_t next) {
    groups_.push_back(out_.size());
    out_ += opening;
    at_ = next;
    begin_alternative();
    return {};
  }
  void close_group() {
    copy(1);
    atom_.reset();
    alternative_begins_ = false;
    if (groups_.empty()) return;  // PCRE2 refuses it
    atom_ = groups_.back();
    atom_is_group_ = true;
    groups_.pop_back();
  }

  // (?i:...), (?i). Oniguruma's m is PCRE2's s: the dot matches a line's end too.
  Result<void> options() {
    std::size_t end = at_ + 2;
    std::string translated = "(?";
    for (; end < pattern_.size() && std::string_view("im-").contains(pattern_[end]); ++end)
      translated += pattern_[end] == 'm' ? 's' : pattern_[end];
    if (end == pattern_.size() || end == at_ + 2 || (pattern_[end] != ':' && pattern_[end] != ')'))
      return refuse("no groups but (?:, (?=, (?!, (?<=, (?<!, (?>, names, and the options i and m");
    translated += pattern_[end];
    if (pattern_[end] == ':') return open_group(translated, end + 1);
    // To Oniguruma, all alternatives behind it are a part of this one.
    if (!alternative_begins_) return refuse("options within an alternative");
    out_ += translated;
    at_ = end + 1;
    return {};
  }

  // "+" behind an interval is possessive to PCRE2 and another repetition to Oniguruma, and so is "?" behind one of
  // a fixed number, which is lazy to PCRE2.
  Result<void> repeat() {
    if (!atom_) return refuse("a repetition of nothing, or of a repetition");
    const std::string_view interval = interval_of(pattern_.substr(at_));
    at_ += interval.size();
    const bool fixed = !interval.empty() && !interval.contains(',');
    if (!interval.empty() && !next_is("+") && !(fixed && next_is("?"))) {
      out_ += interval;
      if (next_is("?")) copy(1);
    } else {
      const bool any_number =
          !atom_is_group_ && (interval == "{1}" || interval.starts_with("{1,")) && next_is("+") && !next_is("+?");
      if (!interval.empty() && !any_number) {
        // Repeating a character one to three times, once or more, is repeating it, which takes fewer steps.
        out_.insert(*atom_, "(?:");
        out_ += interval;
        out_ += ')';
      }
      copy(1);
      if (next_is("?") || next_is("+")) copy(1);
    }
    atom_.reset();
    return {};
  }

  Result<void> open_class() {
    in_class_ = true;
    copy(1);
    if (next_is("^")) copy(1);
    class_begin_ = out_.size();
    if (next_is("]")) return refuse("an empty class");
    return {};
  }

  Result<void> within_class() {
    if (pattern_[at_] == '\\') return escape();
    if (pattern_[at_] == '[') return refuse("a class within a class");
    if (next_is("&&")) return refuse("an intersection of classes");
    if (pattern_[at_] == ']') in_class_ = false;
    copy(1);
    return {};
  }

  Result<void> escape() {
    if (at_ + 1 >= pattern_.size()) return refuse("a single \\ at the end");
    const char c = pattern_[at_ + 1];
    if (c == 's' || c == 'S') return set(kWhiteSpace, c == 'S');
    if (c == 'w' || c == 'W')
      return set(fmt::format("{}{}", kWordCharacters, in_class_ ? "" : kMoreWordCharacters), c == 'W');
    if (c == 'p' || c == 'P') return property(c == 'P');
    if (c == 'u' || c == 'x') return code_point(c);
    if (c == 'v') {
      out_ += R"(\x{B})";
      at_ += 2;
    } else if (kSameEscapes.contains(c) || kEscapedAsThemselves.contains(c)) {
      copy(2);
    } else {
      return refuse(fmt::format("\\{} is not supported", c));
    }
    return {};
  }

  Result<void> set(std::string_view characters, bool negated) {
    if (in_class_ && negated) return refuse("\\S and \\W within a class");
    at_ += 2;
    // Otherwise it would be a range with the set's last or first character.
    const bool behind_dash =
        in_class_ && out_.size() > class_begin_ + 1 && out_.ends_with('-') && !out_.ends_with("\\-");
    const bool before_dash = in_class_ && next_is("-") && !next_is("-]");
    if (behind_dash || before_dash) return refuse("a range that begins or ends with a set");
    out_ += in_class_ ? std::string(characters) : fmt::format("[{}{}]", negated ? "^" : "", characters);
    return {};
  }

  // \p{L}, \p{^L}, \p{Han}. A script's name alone means its extensions too to PCRE2, but not to Oniguruma.
  Result<void> property(bool negated) {
    const std::size_t end = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || end == std::string_view::npos)
      return refuse("\\p without a name in braces");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    std::string key;
    for (const char c : name) {
      if (c == ' ' || c == '_' || c == '-') continue;
      const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      if (lower < 'a' || lower > 'z') return refuse(fmt::format("no property has the name {}", in_quotes(name)));
      key += lower;
    }
    const bool is_script = std::ranges::find(kCategories, key) == kCategories.end() &&
                           std::ranges::find(kOtherProperties, key) == kOtherProperties.end();
    out_ += fmt::format("\\{}{{{}{}}}", negated ? 'P' : 'p', is_script ? "sc:" : "", key);
    at_ = end + 1;
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
  std::string out_;
  bool in_class_ = false;
  std::size_t class_begin_ = 0;      // in out_
  std::vector<std::size_t> groups_;  // where the open ones begin in out_
  std::optional<std::size_t> atom_;  // where what may be repeated begins in out_
  bool atom_is_group_ = false;
  bool alternative_begins_ = true;
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

// The regular expressions of tokenizers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::tokenizer {

/// Word characters of Unicode's UTS 18, annex C, as a part of a class: alphabetic, marks, decimal digits, connectors.
/// The ranges are the symbols that are alphabetic. PCRE2's \w has no marks and no connectors but "_", and has all kinds
/// of numbers.
inline constexpr std::string_view kWordCharacters =
    R"(\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

/// Scratch memory of searches, reused. Threads: one per thread.
class RegexMemory {
 public:
  RegexMemory();
  ~RegexMemory();
  RegexMemory(RegexMemory&&) = delete;

 private:
  friend class Regex;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A compiled regular expression over valid UTF-8, in the dialect of tokenizer.json (Oniguruma's, with Unicode
/// classes). Constructs with another meaning in PCRE2 are translated (\s, \w, \v, \u, scripts, the option m, what
/// follows an interval) or refused by compile(). Immutable. Threads: any.
class Regex {
 public:
  enum class Outcome { kFound, kNone, kLimit };
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Refuses invalid and unsupported expressions. It also refuses an expression that needs more than a bounded number
  /// of steps per byte for some hostile texts of a few KiB (catastrophic or quadratic backtracking), because with it a
  /// user could stall a server.
  [[nodiscard]] static Result<Regex> compile(std::string_view pattern);

  /// The expression as given to compile().
  [[nodiscard]] const std::string& source() const;

  /// The first match at or after `from`. kLimit: the search exceeded its bound of steps.
  [[nodiscard]] Outcome find(std::string_view text, std::size_t from, RegexMemory& memory, Match& match) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

/// The same expression for PCRE2 with UTF, UCP and MULTILINE.
[[nodiscard]] Result<std::string> translate_to_pcre2(std::string_view pattern);

}  // namespace kvist::tokenizer

// Regular expressions of tokenizers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::tokenizer {

/// What a search needs besides the expression; one per thread, reused.
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

/// A compiled regular expression over valid UTF-8, in the dialect that tokenizer.json is written in (Oniguruma's, with
/// Unicode classes). What that dialect and PCRE2 understand differently is translated (\s, \w, \v, \u) or refused at
/// compile(). Immutable; any thread may use it.
class Regex {
 public:
  enum class Outcome { kFound, kNone, kLimit };
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Refuses, besides what is wrong or not supported, an expression whose search through some hostile texts of a few
  /// KiB takes more steps than a bound per byte (catastrophic or quadratic backtracking): it would let a user stop a
  /// server.
  [[nodiscard]] static Result<Regex> compile(std::string_view pattern);

  /// As it was compiled.
  [[nodiscard]] const std::string& source() const;

  /// The first match at or after `from`. kLimit: the search took more steps than a bound.
  [[nodiscard]] Outcome find(std::string_view text, std::size_t from, RegexMemory& memory, Match& match) const;

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

/// The same expression for PCRE2 with UTF, UCP and MULTILINE.
[[nodiscard]] Result<std::string> translate_to_pcre2(std::string_view pattern);

}  // namespace kvist::tokenizer

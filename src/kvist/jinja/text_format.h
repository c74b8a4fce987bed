// The method format() of texts.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/jinja/meter.h"
#include "kvist/jinja/value.h"

namespace kvist::jinja {

/// How a value is written: Python's format specification without "=", "#", "_", and types other than s, d, x, X, o, b,
/// f, e and %.
struct FormatSpec {
  std::string_view fill = " ";  ///< one character
  char align = '\0';            ///< one of < > ^; 0: as the value has it
  char sign = '\0';             ///< one of - + and a space; 0: of negative numbers only, as -
  bool zeros = false;           ///< between the sign and the digits
  std::size_t width = 0;        ///< in characters
  bool thousands = false;       ///< commas
  std::optional<std::size_t> precision = {};
  char type = '\0';

  [[nodiscard]] bool operator==(const FormatSpec&) const = default;
};

/// A text with fields for arguments: {}, {0}, {name}, each perhaps with a specification behind a colon. Its views are
/// of the text that it was read from.
class TextFormat {
 public:
  [[nodiscard]] static Result<TextFormat> read(std::string_view text);
  /// The same, and counts the cost, which is that of the text.
  [[nodiscard]] static Result<TextFormat> read(Meter& meter, std::string_view text);

  /// The names that the fields need, and how many arguments by position.
  [[nodiscard]] std::vector<std::string_view> names() const;
  [[nodiscard]] std::size_t positions() const;

  using Named = std::vector<std::pair<std::string_view, Value>>;
  /// `text` is what was read, with its marks.
  [[nodiscard]] Result<Value> apply(Meter& meter, const MarkedText& text, std::span<const Value> arguments,
                                    const Named& named) const;

 private:
  struct Literal {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  struct Field {
    std::variant<std::size_t, std::string_view> argument;
    FormatSpec spec;
  };
  /// What has been seen of fields without and with a number, which do not go together.
  struct Numbering {
    std::size_t next = 0;
    bool given = false;
  };
  [[nodiscard]] Result<void> add_field(std::string_view inside, Numbering& numbering);

  std::vector<std::variant<Literal, Field>> parts_;
};

}  // namespace kvist::jinja

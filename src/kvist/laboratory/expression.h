// Expressions over figures, in Jinja. Observations' claims and quoted numbers are computed with them, not typed in.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::laboratory {

/// The figures that expressions use as functions: tpot_p50_ms(kv, 100).
struct Figures {
  /// The names of the functions.
  std::vector<std::string> names;
  /// Returns a figure by its name and arguments, which are words, texts and whole numbers. Nothing if there is no such
  /// value (a level that was not measured); an error if an argument is invalid.
  std::function<Result<std::optional<double>>(const std::string& name, const std::vector<std::string>& arguments)> find;
};

/// Jinja's expressions (module jinja) over `figures`, besides these functions: min(...), max(...), mean(...), abs(x),
/// and the ones for text of fill_in(). Routing modes and names of figures are written as words, other texts in quotes.
/// True is 1 and False 0. An expression that uses a missing figure, or is not a finite number, is missing. Errors quote
/// the expression, with the column. An expression has at most 4 kB.
///
///   tpot_p50_ms(round_robin, 100) / tpot_p50_ms(round_robin, 80, 'slots-128') >= 1.15
[[nodiscard]] Result<std::optional<double>> evaluate(std::string_view expression, const Figures& figures);

/// Replaces each {{expression}} of a text by its value. Functions that print a value: ms(x), s(x) (of milliseconds),
/// pct(x), points(x), times(x) (a factor), fixed(x, decimals). A missing value is "-".
[[nodiscard]] Result<std::string> fill_in(std::string_view text, const Figures& figures);

}  // namespace kvist::laboratory

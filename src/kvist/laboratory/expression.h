// What an observation claims, and what a text quotes, is computed from figures, never typed in: expressions in Jinja
// whose functions are figures.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::laboratory {

/// The figures that expressions speak of: tpot_p50_ms(kv, 100) is a function's call.
struct Figures {
  /// What can be called.
  std::vector<std::string> names;
  /// A figure by its name and arguments, which are words, texts and whole numbers. Nothing where there is no such value
  /// (a level that was not measured); an error where an argument means nothing.
  std::function<Result<std::optional<double>>(const std::string& name, const std::vector<std::string>& arguments)> find;
};

/// Jinja's expressions (module jinja) over `figures`, besides these functions: min(...), max(...), mean(...), abs(x),
/// and those that make text, by fill_in(). Words that stand for themselves are routing modes and figures' names; other
/// texts are in quotes. True is 1 and False 0. What calls a missing figure is missing, and so is what is no finite
/// number. Errors quote the expression, with the column. At most 4 kB.
///
///   tpot_p50_ms(round_robin, 100) / tpot_p50_ms(round_robin, 80, 'slots-128') >= 1.15
[[nodiscard]] Result<std::optional<double>> evaluate(std::string_view expression, const Figures& figures);

/// Replaces each {{expression}} of a text by its value. Functions that print a value: ms(x), s(x) (of milliseconds),
/// pct(x), points(x), times(x) (a factor), fixed(x, decimals). A missing value is "-".
[[nodiscard]] Result<std::string> fill_in(std::string_view text, const Figures& figures);

}  // namespace kvist::laboratory

// A small language over figures: what an observation claims, and what a text quotes, is computed, never typed in.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::laboratory {

/// A figure by name and arguments: tpot_p50_ms(kv, 100). Nothing where there is no such value (a level that was not
/// measured); an error where the name or an argument means nothing.
using FigureLookup =
    std::function<Result<std::optional<double>>(const std::string& name, const std::vector<std::string>& arguments)>;

/// Arithmetic (+ - * /), comparison (< <= > >=), `and`, `or`, parentheses, numbers, figures, and over a list of values
/// min(...), max(...), mean(...), abs(x). A comparison is 1 or 0. Anything computed from a missing value is missing; so
/// is a division by 0 and what is too large for a number. Bounded: 4 kB of text, nesting of 32.
///
///   tpot_p50_ms(round_robin, 100) / tpot_p50_ms(round_robin, 80) >= 1.15
///
/// Figures are names with arguments of words and whole numbers; a name may have dots: published.tops(kv, 40).
[[nodiscard]] Result<std::optional<double>> evaluate(std::string_view expression, const FigureLookup& lookup);

/// Replaces each {{expression}} or {{expression|format}} of a text by its value. Formats: ms, s, pct, points, x (a
/// factor), 0 to 3 (decimals), holds ("holds", "does not hold"); 1 decimal where none is named. A missing value is "-".
/// Errors name the expression.
[[nodiscard]] Result<std::string> fill_in(std::string_view text, const FigureLookup& lookup);

}  // namespace kvist::laboratory

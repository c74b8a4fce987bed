// Figures of a level by the keys of the published JSON, with what is needed to print them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/analysis/repetitions.h"

namespace kvist::analysis {

struct NamedFigure {
  std::string_view key;    ///< "ttft_p50_ms"
  std::string_view title;  ///< "TTFT p50"
  std::string_view unit;   ///< of the figure as printed: "ms", "s", "%", "tokens/s", "turns/s"
  LevelFigure figure;
  int decimals;                                  ///< in JSON
  std::string (*format)(std::optional<double>);  ///< in tables, as published
};

inline constexpr std::size_t kPublishedFigures = 10;
/// The figures of the published JSON, in its order.
[[nodiscard]] const std::array<NamedFigure, kPublishedFigures>& published_figures();
/// Null for a key that is not published.
[[nodiscard]] const NamedFigure* find_figure(std::string_view key);

}  // namespace kvist::analysis

// Private to perfmodel: which coefficients there are. The one list of mechanisms; files, fits and formulas go by it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvist::perfmodel {

/// What is fixed about a coefficient; its value, origin and freedom stand in the profile file.
struct CoefficientKind {
  std::string_view name;  ///< within its mechanism
  std::string_view unit;
  std::string_view meaning;
  double low;
  double high;
  std::optional<double> absent = {};  ///< the value of one that a file leaves out; none: the file must give it
};

/// One named reason why a step or a request takes its time.
struct Mechanism {
  std::string_view name;
  bool is_required;  ///< no engine is without it; others are off where a file does not name them
  std::span<const CoefficientKind> coefficients;
};

/// In the order in which they are written and printed.
[[nodiscard]] std::span<const Mechanism> mechanisms();

/// "above_64" -> 64: the coefficients of the mechanism "tiles" carry their number of rows in the name.
[[nodiscard]] std::optional<std::uint32_t> tile_rows(std::string_view name);
/// The kind of all of them.
[[nodiscard]] const CoefficientKind& tile_kind();

inline constexpr std::string_view kSwitchUnit = "switch";

}  // namespace kvist::perfmodel

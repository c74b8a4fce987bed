// Private to perfmodel: the list of all mechanisms and their coefficients, which files, fits and formulas use.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvist::perfmodel {

/// The fixed properties of a coefficient. Its value, its origin and whether a fit may change it are in the profile
/// file.
struct CoefficientKind {
  std::string_view name;  ///< within its mechanism
  std::string_view unit;
  std::string_view meaning;
  double low;
  double high;
  std::optional<double> absent = {};  ///< the value if a file leaves it out; none: the file has to set it
};

/// A mechanism that contributes to the time of a step or a request.
struct Mechanism {
  std::string_view name;
  bool is_required;  ///< every engine has it; others are off if a file does not name them
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

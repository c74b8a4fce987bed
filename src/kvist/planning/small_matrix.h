// Private to planning: symmetric systems of a few unknowns.
#pragma once

#include <optional>
#include <vector>

namespace kvist::planning {

using Matrix = std::vector<std::vector<double>>;  ///< rows

/// The inverse of a symmetric positive definite matrix, by Cholesky's decomposition; nothing if it is singular to
/// working precision.
[[nodiscard]] std::optional<Matrix> inverse_of(const Matrix& matrix);

}  // namespace kvist::planning

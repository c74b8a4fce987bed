#include "kvist/planning/small_matrix.h"

#include <cmath>

namespace kvist::planning {
namespace {

/// L with L L' = matrix.
std::optional<Matrix> cholesky(const Matrix& matrix) {
  constexpr double kSingular = 1e-13;
  const std::size_t n = matrix.size();
  Matrix lower(n, std::vector<double>(n, 0));
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      if (i != j) {
        lower[i][j] = sum / lower[j][j];
      } else if (sum > kSingular * matrix[i][i] && std::isfinite(sum)) {
        lower[i][i] = std::sqrt(sum);
      } else {
        return std::nullopt;
      }
    }
  }
  return lower;
}

}  // namespace

std::optional<Matrix> inverse_of(const Matrix& matrix) {
  const auto lower = cholesky(matrix);
  if (!lower) return std::nullopt;
  const std::size_t n = matrix.size();
  Matrix inverse(n, std::vector<double>(n, 0));
  for (std::size_t column = 0; column < n; ++column) {
    std::vector<double> x(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = i == column ? 1 : 0;
      for (std::size_t k = 0; k < i; ++k) sum -= (*lower)[i][k] * x[k];
      x[i] = sum / (*lower)[i][i];
    }
    for (std::size_t i = n; i-- > 0;) {
      double sum = x[i];
      for (std::size_t k = i + 1; k < n; ++k) sum -= (*lower)[k][i] * x[k];
      x[i] = sum / (*lower)[i][i];
    }
    for (std::size_t i = 0; i < n; ++i) inverse[i][column] = x[i];
  }
  return inverse;
}

}  // namespace kvist::planning

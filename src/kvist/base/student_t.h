// Student's t distribution, for the confidence of a mean of few samples.
#pragma once

#include <cstddef>

namespace kvist {

/// The `probability`-quantile of Student's t distribution. Requires: 0 < probability < 1, at least one degree of
/// freedom.
[[nodiscard]] double student_t_quantile(double probability, std::size_t degrees_of_freedom);

}  // namespace kvist

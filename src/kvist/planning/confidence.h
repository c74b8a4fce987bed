// The confidence interval of a mean over seeds.
#pragma once

#include <cstddef>
#include <span>

#include "kvist/base/student_t.h"

namespace kvist::planning {

/// A mean and its bounds: with the confidence asked for, the true mean is above `low`, and with the same confidence it
/// is below `high` (two one-sided statements).
struct MeanInterval {
  double mean = 0;
  double low = 0;
  double high = 0;
};
/// By Student's t over independent samples. A single sample gives infinite bounds. Requires: at least one sample and
/// 0.5 <= confidence < 1.
[[nodiscard]] MeanInterval mean_interval(std::span<const double> samples, double confidence);

}  // namespace kvist::planning

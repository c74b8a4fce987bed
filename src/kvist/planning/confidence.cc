#include "kvist/planning/confidence.h"

#include <cmath>
#include <limits>

#include "kvist/base/check.h"

namespace kvist::planning {

MeanInterval mean_interval(std::span<const double> samples, double confidence) {
  KVIST_CHECK(!samples.empty() && confidence >= 0.5 && confidence < 1, "no interval without samples");
  const double n = static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += sample;
  const double mean = sum / n;
  if (samples.size() == 1) {
    return {mean, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  }
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double half = student_t_quantile(confidence, samples.size() - 1) * std::sqrt(squares / (n - 1)) / std::sqrt(n);
  return {mean, mean - half, mean + half};
}

}  // namespace kvist::planning

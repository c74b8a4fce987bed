#include "kvist/base/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kvist/base/check.h"

namespace kvist {

double quantile_of_sorted(std::span<const double> sorted, double q) {
  KVIST_CHECK(!sorted.empty(), "quantile of no samples");
  KVIST_CHECK(q >= 0 && q <= 1, "quantile outside [0, 1]");
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = rank - static_cast<double>(below);
  return sorted[below] + fraction * (sorted[above] - sorted[below]);
}

Distribution describe(std::vector<double> samples) {
  Distribution d;
  d.count = samples.size();
  if (samples.empty()) return d;
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  d.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
  if (samples.size() > 1) {
    double squares = 0;
    for (const double x : samples) squares += (x - d.mean) * (x - d.mean);
    d.standard_deviation = std::sqrt(squares / (n - 1));
  }
  d.min = samples.front();
  d.p50 = quantile_of_sorted(samples, 0.50);
  d.p90 = quantile_of_sorted(samples, 0.90);
  d.p95 = quantile_of_sorted(samples, 0.95);
  d.p99 = quantile_of_sorted(samples, 0.99);
  d.max = samples.back();
  return d;
}

}  // namespace kvist

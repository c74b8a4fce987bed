#include "kvist/analysis/sample_summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kvist::analysis {
namespace {

/// Quantiles asked for in ascending order, so that each selection works on what lies above the one before.
class AscendingQuantiles {
 public:
  explicit AscendingQuantiles(std::vector<float>& samples) : samples_(samples) {}

  /// Type 7, as quantile_of_sorted().
  double operator()(double q) {
    const double rank = q * static_cast<double>(samples_.size() - 1);
    const auto below = static_cast<std::size_t>(rank);
    const std::size_t above = std::min(below + 1, samples_.size() - 1);
    const double low = select(below);
    const double high = select(above);
    return low + (rank - static_cast<double>(below)) * (high - low);
  }

 private:
  double select(std::size_t rank) {
    if (rank >= selected_) {
      const auto at = [&](std::size_t i) { return samples_.begin() + static_cast<std::ptrdiff_t>(i); };
      std::nth_element(at(selected_), at(rank), samples_.end());
      selected_ = rank + 1;
    }
    return static_cast<double>(samples_[rank]);
  }

  std::vector<float>& samples_;
  std::size_t selected_ = 0;  // no element before it is larger than one at or after it
};

}  // namespace

Distribution describe_in_place(std::vector<float>& samples) {
  Distribution d;
  d.count = samples.size();
  if (samples.empty()) return d;
  const auto n = static_cast<double>(samples.size());
  double sum = 0;
  float low = samples.front();
  float high = samples.front();
  for (const float x : samples) {
    sum += static_cast<double>(x);
    low = std::min(low, x);
    high = std::max(high, x);
  }
  d.mean = sum / n;
  double squares = 0;
  for (const float x : samples) squares += (static_cast<double>(x) - d.mean) * (static_cast<double>(x) - d.mean);
  if (samples.size() > 1) d.standard_deviation = std::sqrt(squares / (n - 1));
  d.min = static_cast<double>(low);
  d.max = static_cast<double>(high);
  AscendingQuantiles quantile(samples);
  d.p50 = quantile(0.50);
  d.p90 = quantile(0.90);
  d.p95 = quantile(0.95);
  d.p99 = quantile(0.99);
  return d;
}

}  // namespace kvist::analysis

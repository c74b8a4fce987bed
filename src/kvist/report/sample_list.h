// Samples of one measure and what other tools' result files say of them. Private to the exports.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/statistics.h"

namespace kvist::report {

/// Sorted samples, with the definitions of NumPy: quantiles by linear interpolation, the standard deviation of the
/// population.
class SampleList {
 public:
  explicit SampleList(std::vector<double> samples) : sorted_(std::move(samples)) {
    std::erase_if(sorted_, [](double value) { return !std::isfinite(value); });
    std::ranges::sort(sorted_);
    for (const double value : sorted_) sum_ += value;
    const double mean = this->mean();
    for (const double value : sorted_) squares_ += (value - mean) * (value - mean);
  }

  [[nodiscard]] bool empty() const { return sorted_.empty(); }
  [[nodiscard]] std::size_t count() const { return sorted_.size(); }
  [[nodiscard]] double sum() const { return sum_; }
  [[nodiscard]] double mean() const { return empty() ? 0 : sum_ / static_cast<double>(count()); }
  [[nodiscard]] double variance() const { return empty() ? 0 : squares_ / static_cast<double>(count()); }
  [[nodiscard]] double standard_deviation() const { return std::sqrt(variance()); }
  /// Requires: not empty.
  [[nodiscard]] double quantile(double q) const { return quantile_of_sorted(sorted_, q); }
  [[nodiscard]] double min() const { return sorted_.front(); }
  [[nodiscard]] double max() const { return sorted_.back(); }
  /// The value that occurs most often, the smallest of several.
  [[nodiscard]] double mode() const {
    double best = sorted_.front();
    std::size_t most = 0;
    for (auto at = sorted_.begin(); at != sorted_.end();) {
      const auto end = std::upper_bound(at, sorted_.end(), *at);
      const auto times = static_cast<std::size_t>(end - at);
      if (times > most) {
        most = times;
        best = *at;
      }
      at = end;
    }
    return best;
  }

 private:
  std::vector<double> sorted_;
  double sum_ = 0;
  double squares_ = 0;
};

}  // namespace kvist::report

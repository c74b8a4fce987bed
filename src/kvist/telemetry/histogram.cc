#include "kvist/telemetry/histogram.h"

#include <algorithm>

namespace kvist::telemetry {

void Histogram::observe(double value) {
  ++counts_[static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin())];
  sum_ += value;
}

std::vector<double> bounds_1_2_5(double most) {
  std::vector<double> bounds;
  for (double decade = 1;; decade *= 10) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit * decade > most) return bounds;
      bounds.push_back(digit * decade);
    }
  }
}

}  // namespace kvist::telemetry

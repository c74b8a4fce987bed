// A histogram of latencies for Prometheus.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::gateway {

/// Counts per bucket. The bounds are fixed, from 1 ms to 120 s, each about 1.5 times the one before. Threads: one.
class LatencyHistogram {
 public:
  LatencyHistogram() : counts_(bounds().size() + 1) {}

  void observe(Duration latency) {
    const double seconds = to_seconds(latency);
    const auto bucket = std::ranges::lower_bound(bounds(), seconds);
    ++counts_[static_cast<std::size_t>(bucket - bounds().begin())];
    sum_ += seconds;
  }

  void add(const LatencyHistogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    sum_ += other.sum_;
  }

  /// Upper bounds in seconds, ascending.
  [[nodiscard]] static const std::vector<double>& bounds() {
    static const std::vector<double> kBounds{0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05,
                                             0.075, 0.1,   0.15,  0.2,   0.3,    0.5,  0.75,  1,    1.5,  2,
                                             3,     5,     7.5,   10,    15,     20,   30,    60,   120};
    return kBounds;
  }
  /// The count of each bucket; one more bucket is for values above the last bound.
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
  [[nodiscard]] double sum_seconds() const { return sum_; }

 private:
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

}  // namespace kvist::gateway

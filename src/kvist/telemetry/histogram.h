// A histogram for Prometheus.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/telemetry/metrics.h"

namespace kvist::telemetry {

/// A histogram with bounds of its own, in constant memory. Threads: one.
class Histogram {
 public:
  /// `bounds` are ascending upper bounds, inclusive.
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void observe(double value);
  void write(MetricsPage& page, const std::string& name, const std::string& help, const Labels& labels) const {
    page.histogram(name, help, bounds_, counts_, sum_, labels);
  }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;  // per bucket; the last one is for all values above the bounds
  double sum_ = 0;
};

/// 1, 2, 5, 10, 20, 50, ... up to `most`.
[[nodiscard]] std::vector<double> bounds_1_2_5(double most);

}  // namespace kvist::telemetry

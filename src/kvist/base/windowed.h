// The published method's statistics: quantiles and rates over the last `window` before an instant.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "kvist/base/time.h"

namespace kvist {

/// Samples of the last `window`, for quantiles at any instant. It reports what a Prometheus Summary with that maximum
/// age does, but exactly and without a clock of its own. Memory: one entry per sample in the window. Requires:
/// observations come in the order of time.
class WindowedSummary {
 public:
  explicit WindowedSummary(Duration window) : window_(window) {}

  void observe(TimePoint now, double value);
  /// The exact q-quantile of the samples in (now - window, now]; nothing if there are none.
  [[nodiscard]] std::optional<double> quantile(TimePoint now, double q) const { return quantile(now, q, window_); }
  /// The same of the last `within`, which is at most the window.
  [[nodiscard]] std::optional<double> quantile(TimePoint now, double q, Duration within) const;
  [[nodiscard]] std::size_t count(TimePoint now) const;
  /// Count and sum since construction, the _count and _sum of a Summary.
  [[nodiscard]] std::size_t total_count() const { return total_count_; }
  [[nodiscard]] double total_sum() const { return total_sum_; }
  [[nodiscard]] Duration window() const { return window_; }

 private:
  struct Sample {
    TimePoint at;
    double value;
  };

  Duration window_;
  std::deque<Sample> samples_;
  std::size_t total_count_ = 0;
  double total_sum_ = 0;
};

/// Events per second over the last `window`, as PromQL's increase over that window divided by it, without
/// extrapolation.
class WindowedRate {
 public:
  explicit WindowedRate(Duration window) : window_(window) {}

  void add(TimePoint now, double amount = 1);
  /// Sum of the amounts in (now - window, now], divided by the window in seconds.
  [[nodiscard]] double per_second(TimePoint now) const { return per_second(now, window_); }
  /// The same of the last `within`, which is at most the window.
  [[nodiscard]] double per_second(TimePoint now, Duration within) const;
  [[nodiscard]] double total() const { return total_; }

 private:
  struct Increment {
    TimePoint at;
    double amount;
  };

  Duration window_;
  std::deque<Increment> increments_;
  double total_ = 0;
};

}  // namespace kvist

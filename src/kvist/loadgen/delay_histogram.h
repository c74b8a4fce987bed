// A histogram of delays in constant memory: for watching the client itself, not for what it measures.
#pragma once

#include <array>
#include <cstdint>

#include "kvist/base/time.h"

namespace kvist::loadgen {

/// Counts delays in buckets that grow by 5 %, from 1 us to above one minute; quantiles are a bucket's upper bound, so
/// at most 5 % too high and never too low. The maximum is exact. One thread.
class DelayHistogram {
 public:
  /// A negative delay counts as none.
  void record(Duration delay);
  /// Smallest bucket bound that the share q of all delays does not exceed, at most max(); zero when there are none.
  [[nodiscard]] Duration quantile(double q) const;
  [[nodiscard]] Duration max() const { return max_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  static constexpr std::size_t kBuckets = 384;  // 1 us x 1.05^383 = 130 s
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  Duration max_{};
};

}  // namespace kvist::loadgen
